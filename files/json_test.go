package files_test

import (
	"encoding/json"
	"testing"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// Names are bytes everywhere, JSON included: path, and path_b64 where UTF-8 cannot say
// it.
func TestJSONPath(t *testing.T) {
	type record struct {
		files.JSONPath
		Size int `json:"size"`
	}
	for name, want := range map[string]string{
		"a/b":           `{"path":"a/b","size":1}`,
		"":              `{"path":"","size":1}`,
		"new\nline":     `{"path":"new\nline","size":1}`,
		"\uFFFD":        "{\"path\":\"\uFFFD\",\"size\":1}",
		"\xff":          "{\"path\":\"\uFFFD\",\"path_b64\":\"/w==\",\"size\":1}",
		"a\xe2\x82/b":   "{\"path\":\"a\uFFFD\uFFFD/b\",\"path_b64\":\"YeKCL2I=\",\"size\":1}",
		"\xed\xa0\x80.": "{\"path\":\"\uFFFD\uFFFD\uFFFD.\",\"path_b64\":\"7aCALg==\",\"size\":1}",
	} {
		got, err := json.Marshal(record{files.ToJSON(name), 1})
		if err != nil || string(got) != want {
			t.Errorf("%q is %s, %v; want %s", name, got, err, want)
		}
		var back record
		if err := json.Unmarshal(got, &back); err != nil {
			t.Errorf("%s: %v", got, err)
		}
		if n, err := back.Name(); err != nil || n != name {
			t.Errorf("%s is read as %q, %v; want %q", got, n, err, name)
		}
	}
	for _, bad := range []string{"*", "/w", "/w=", "/x=="} {
		_, err := files.JSONPath{Path: "x", PathB64: bad}.Name()
		if spec.CodeOf(err) != spec.CodeInvalid {
			t.Errorf("path_b64 %q: %v, want %s", bad, err, spec.CodeInvalid)
		}
	}
}
