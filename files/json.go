package files

import (
	"encoding/base64"
	"fmt"
	"unicode/utf8"

	"github.com/berth-dev/berth/spec"
)

// JSONPath is a name in JSON, which holds UTF-8 only. Embedded, it gives an object
// the members "path" and, where that does not say the name exactly, "path_b64".
type JSONPath struct {
	// Path is the name; in one that is not UTF-8 each ill-formed byte is U+FFFD.
	Path string `json:"path"`
	// PathB64 is the name in standard base64 where Path is not exact, else "".
	PathB64 string `json:"path_b64,omitempty"`
}

// ToJSON says name in JSON.
func ToJSON(name string) JSONPath {
	if utf8.ValidString(name) {
		return JSONPath{Path: name}
	}
	// A conversion to runes makes one U+FFFD of each ill-formed byte.
	return JSONPath{Path: string([]rune(name)), PathB64: base64.StdEncoding.EncodeToString([]byte(name))}
}

// Name returns the exact name: what PathB64 says, or else Path. Base64 that is
// malformed is CodeInvalid.
func (p JSONPath) Name() (string, error) {
	if p.PathB64 == "" {
		return p.Path, nil
	}
	name, err := base64.StdEncoding.Strict().DecodeString(p.PathB64)
	if err != nil {
		return "", &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("path_b64: %w", err)}
	}
	return string(name), nil
}
