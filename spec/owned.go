package spec

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// ownedJSON is an Owned in JSON, which holds UTF-8 only: a workdir that is none stands in
// workdir_b64 too, and each ill-formed byte of workdir is U+FFFD.
type ownedJSON struct {
	*plainOwned
	Workdir    string `json:"workdir,omitempty"`
	WorkdirB64 string `json:"workdir_b64,omitempty"`
}

type plainOwned Owned

// MarshalJSON implements json.Marshaler.
func (o Owned) MarshalJSON() ([]byte, error) {
	out := ownedJSON{plainOwned: (*plainOwned)(&o), Workdir: o.Workdir}
	if !utf8.ValidString(o.Workdir) {
		out.Workdir, out.WorkdirB64 = string([]rune(o.Workdir)), base64.StdEncoding.EncodeToString([]byte(o.Workdir))
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Owned) UnmarshalJSON(data []byte) error {
	var plain plainOwned
	in := ownedJSON{plainOwned: &plain}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	plain.Workdir = in.Workdir
	if in.WorkdirB64 != "" {
		exact, err := base64.StdEncoding.Strict().DecodeString(in.WorkdirB64)
		if err != nil {
			return &Error{Code: CodeInvalid, Err: fmt.Errorf("workdir_b64: %w", err)}
		}
		plain.Workdir = string(exact)
	}
	*o = Owned(plain)
	return nil
}
