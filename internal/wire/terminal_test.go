package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/berth-dev/berth/spec"
)

// A record of a terminal that contradicts itself, or is out of range, is refused whole.
func TestTerminalSpec(t *testing.T) {
	good := func() *Terminal {
		return &Terminal{ID: "term-1", Name: Bytes("sh"), PID: 1, Size: spec.TerminalSize{Cols: 80, Rows: 24}, StartedUnixNS: 5, OutputBytes: 9, ScrollbackBytes: 9}
	}
	if _, err := good().Spec(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Terminal){
		"id":         func(r *Terminal) { r.ID = "term-01" },
		"no id":      func(r *Terminal) { r.ID = "" },
		"name":       func(r *Terminal) { r.Name = make(Bytes, 257) },
		"pid":        func(r *Terminal) { r.PID = 0 },
		"size":       func(r *Terminal) { r.Size.Cols = 0 },
		"large":      func(r *Terminal) { r.Size.Rows = spec.MaxTerminalSide + 1 },
		"viewers":    func(r *Terminal) { r.Viewers = -1 },
		"scrollback": func(r *Terminal) { r.ScrollbackBytes = 10 },
		"kept":       func(r *Terminal) { r.OutputBytes, r.ScrollbackBytes = 1<<40, spec.MaxScrollbackBytes+1 },
		"end":        func(r *Terminal) { r.EndedUnixNS = 7 },
		"exit":       func(r *Terminal) { r.Exit = &Exit{} },
		"code":       func(r *Terminal) { r.EndedUnixNS, r.Exit = 7, &Exit{Code: 300} },
	} {
		r := good()
		spoil(r)
		if got, err := r.Spec(); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	r := good()
	r.EndedUnixNS, r.Exit = 2, &Exit{Code: 3} // the clock was set back
	if got, err := r.Spec(); err != nil || got.Running() || got.Ended.Before(got.Started) || got.Exit.Code != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Whatever a guest sends in a view is an event within its bounds, output, or an error, and
// its end is never silence.
func FuzzReadTerminal(f *testing.F) {
	var seed bytes.Buffer
	_ = WriteMessage(&seed, TerminalEvent{At: 3, Size: &spec.TerminalSize{Cols: 1, Rows: 1}, Restore: Bytes("x")})
	_, _ = WriteData(&seed, []byte("output"), 0)
	_ = WriteEnd(&seed)
	f.Add(seed.Bytes())
	f.Add([]byte("J\x00\x00\x00\x10{\"skipped\":5,\"a\""))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		for {
			e, data, err := ReadTerminal(r, nil)
			switch {
			case err == io.EOF && (len(in) == 0 || r.Len() == len(in)):
				t.Fatal("an end out of nothing")
			case err != nil:
				return
			case e == nil && len(data) == 0 || e != nil && data != nil || len(data) > MaxDataBytes:
				t.Fatalf("%+v and %d bytes", e, len(data))
			case e != nil && e.Check() != nil:
				t.Fatalf("%+v", e)
			}
		}
	})
}
