package image

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

// Every message is handed on; an error in a stream is its end, and what is none of an
// engine's messages is an error too.
func TestMessages(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		taken    int
		err      string // "": none
	}{
		{"none", "", 0, ""},
		{"docker's", "{\"status\":\"a\"}\r\n{\"stream\":\"b\"}\r\n", 2, ""},
		{"no last newline", `{"status":"a"}`, 1, ""},
		{"an error", "{\"status\":\"a\"}\n{\"errorDetail\":{\"code\":1,\"message\":\"no\"},\"error\":\"no\"}\n{\"status\":\"b\"}", 1, "no"},
		{"podman's error", `{"error":"no"}`, 0, "no"},
		{"detail alone", `{"errorDetail":{"message":"no"}}`, 0, "no"},
		{"an empty error", `{"errorDetail":{}}`, 0, ""},
		{"no JSON", "<html>", 0, "broken"},
		{"no object", "[1]", 0, "broken"},
		{"a number", "1", 0, "broken"},
		{"null", "null", 0, "broken"},
		{"two in a line", `{"status":"a"}{"status":"b"}`, 0, "broken"},
		{"cut short", `{"status":"a`, 0, "broken"},
		{"another type", `{"status":1}`, 0, "broken"},
		{"too long", `{"status":"` + strings.Repeat("a", maxMessage) + `"}`, 0, "over"},
	} {
		taken := 0
		err := readMessages(strings.NewReader(tt.in), func(message) error { taken++; return nil })
		wantErr := tt.err != "" || tt.name == "an empty error"
		if taken != tt.taken || (err != nil) != wantErr || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %d taken, %v; want %d, %q", tt.name, taken, err, tt.taken, tt.err)
		}
	}
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"status":"Downloading","progressDetail":{"current":3,"total":2},"id":"0123456789ab"}`))
	f.Add([]byte("{\"error\":\"x\"}\n{}"))
	f.Add([]byte(`{"progressDetail":{"current":-1,"total":-5},"id":"0123456789ab"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var fast, slow int
		errFast := readMessages(bytes.NewReader(in), func(m message) error {
			fast++
			if p, ok := m.layer(); ok && (p.Done < 0 || p.Done > p.Total || p.Part == "" || len(p.Message) > 1<<10) {
				t.Errorf("progress %+v", p)
			}
			return nil
		})
		errSlow := readMessages(iotest.OneByteReader(bytes.NewReader(in)), func(message) error { slow++; return nil })
		if fast != slow || (errFast == nil) != (errSlow == nil) {
			t.Errorf("fragmentation changes the result: %d %v, %d %v", fast, errFast, slow, errSlow)
		}
		if r, ok := errors.AsType[*refusal](errFast); ok && len(r.text) > 1<<10 {
			t.Errorf("%d bytes of refusal", len(r.text))
		}
	})
}
