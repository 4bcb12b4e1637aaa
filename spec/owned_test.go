package spec_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/spec"
)

// TestOwnedJSON defends: a workdir survives JSON byte for byte, and one that is UTF-8 is
// said once.
func TestOwnedJSON(t *testing.T) {
	for dir, b64 := range map[string]bool{"": false, "/w": false, "/é\n": false, "/\xff": true, "/a\xe2\x82/b": true} {
		want := spec.Owned{Key: "k", ID: "sb_1", Backend: "process", State: spec.StateRunning, Workdir: dir, TTL: 5}
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got spec.Owned
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" || strings.Contains(string(data), "workdir_b64") != b64 {
			t.Errorf("%q: %s\n%s", dir, data, diff)
		}
	}
	var o spec.Owned
	if err := json.Unmarshal([]byte(`{"workdir_b64":"%"}`), &o); spec.CodeOf(err) != spec.CodeInvalid {
		t.Errorf("malformed: %v", err)
	}
}
