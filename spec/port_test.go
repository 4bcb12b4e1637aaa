package spec_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/spec"
)

// A port survives JSON, whatever bytes its name has, and has address_b64 only where it must.
func TestPortJSON(t *testing.T) {
	for address, b64 := range map[string]bool{"127.0.0.1:80": false, "/run/é": false, "/a\xff\n": true} {
		want := spec.Port{Network: "unix", Address: address, PID: 3, Name: "x"}
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got spec.Port
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" || strings.Contains(string(data), "address_b64") != b64 {
			t.Errorf("%s %s", data, diff)
		}
	}
	var p spec.Port
	if err := json.Unmarshal([]byte(`{"address_b64":"%"}`), &p); spec.CodeOf(err) != spec.CodeInvalid {
		t.Errorf("%v", err)
	}
}

// What nothing can listen on is refused before it is sent.
func TestValidateAddress(t *testing.T) {
	for _, tt := range []struct {
		network, address string
		listen           bool
		code             spec.Code
	}{
		{"tcp", "localhost:80", false, ""},
		{"tcp4", ":1", false, ""},
		{"tcp6", "[::1]:65535", false, ""},
		{"tcp", ":0", true, ""},
		{"unix", "a", false, ""},
		{"unix", "@a", true, ""},
		{"unix", "/a\xff", false, ""},
		{"tcp", ":0", false, spec.CodeInvalid},
		{"tcp", "80", false, spec.CodeInvalid},
		{"tcp", ":http", false, spec.CodeInvalid},
		{"tcp", ":-1", false, spec.CodeInvalid},
		{"tcp", "a/b:1", false, spec.CodeInvalid},
		{"tcp", strings.Repeat("a", 254) + ":1", false, spec.CodeInvalid},
		{"udp", ":1", false, spec.CodeInvalid},
		{"", "", false, spec.CodeInvalid},
		{"unix", "@", true, spec.CodeInvalid},
		{"unix", "", false, spec.CodeInvalidPath},
		{"unix", "a\x00", false, spec.CodeInvalidPath},
	} {
		if err := spec.ValidateAddress(tt.network, tt.address, tt.listen); spec.CodeOf(err) != tt.code {
			t.Errorf("%s %.40q: %v, want %q", tt.network, tt.address, err, tt.code)
		}
	}
}
