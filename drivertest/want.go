package drivertest

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"

	"github.com/berth-dev/berth/files"
)

// wantText compares bytes and shows the first difference only.
func wantText(t T, what string, got []byte, want string) {
	t.Helper()
	if string(got) == want {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	from := max(0, at-20)
	t.Errorf("%s: %d bytes, want %d; they differ from byte %d on: %.60q, want %.60q",
		what, len(got), len(want), at, got[min(from, len(got)):], want[min(from, len(want)):])
}

// wantError wants an error that is all of targets.
func wantError(t T, what string, err error, targets ...error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error; want %v", what, targets[0])
		return
	}
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("%s: the error is %q; errors.Is(it, %q) is false", what, err, target)
		}
	}
}

// noise returns n bytes without a period, the same for the same seed: every byte
// value is among them.
func noise(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 42))
	out := make([]byte, 0, n+8)
	for len(out) < n {
		v := rng.Uint64()
		for range 8 {
			out = append(out, byte(v))
			v >>= 8
		}
	}
	return out[:n]
}

// sum identifies a stream that is too long to keep.
func sum(p []byte) uint64 {
	h := fnv.New64a()
	h.Write(p)
	return h.Sum64()
}

// file returns a name in the workdir that no other case uses.
func (e *Env) file(name string) string { return "f-" + randomHex() + "-" + name }

// write writes a file; a failure is fatal.
func (e *Env) write(ctx context.Context, t T, name string, data []byte, o files.WriteOptions) {
	t.Helper()
	if err := e.Sandbox.Files().WriteFile(ctx, name, data, o); err != nil {
		t.Fatalf("write: %v", err)
	}
}
