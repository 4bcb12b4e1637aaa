//go:build linux

package guest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// A connection that breaks again and again costs a command no byte, with a key as without:
// what breaks for less than the resume window is not noticed.
func TestKeyedCommandOverABrokenConnection(t *testing.T) {
	const lines = 700_000
	var want bytes.Buffer
	for i := range lines {
		fmt.Fprintln(&want, i+1)
	}
	for _, key := range []string{"", "k"} {
		s := newPlace(t).open(func(c io.ReadWriteCloser) io.ReadWriteCloser {
			return &cutter{ReadWriteCloser: c, left: 900_000}
		})
		var out bytes.Buffer
		p, err := s.Start(context.Background(), &spec.Command{Key: key, Args: []string{"seq", fmt.Sprint(lines)}}, driver.Stdio{Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		e, err := p.Wait(context.Background())
		if err != nil || !e.Success() || !bytes.Equal(out.Bytes(), want.Bytes()) {
			t.Errorf("key %q: %v, %v, %d bytes of %d", key, e, err, out.Len(), want.Len())
		}
	}
}
