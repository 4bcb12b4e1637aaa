//go:build linux

package ssh

import (
	"context"
	"io"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/testutil/sshtest"
	"github.com/berth-dev/berth/spec"
)

// counter counts what is written to it.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// On a line of 40 ms each way, the output and the input of a command are not held up by
// a window that is too small for it: the mux's own default would give a fifth of the
// speed of a bare SSH channel. The ratio itself, 0.8 and more on a quiet machine, is
// logged; a busy one must not fail the test.
func TestThroughputOnALongLine(t *testing.T) {
	const (
		delay  = 40 * time.Millisecond
		size   = 24 << 20
		rounds = 2
		goal   = 0.35
	)
	s := sshtest.Start(t, sshtest.Options{})
	p := sshtest.StartProxy(t, s.Addr, delay)
	h := testHost(t, s, p.Addr, defaultTiming())
	h.o.RemoteDir = filepath.Join(t.TempDir(), "state")
	ctx := testContext(t)
	sess, err := h.Provision(ctx, &spec.Spec{Key: "long-line"}, driver.ProvisionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = sess.Close(ctx)
		if err := h.Reap(ctx, "long-line", driver.ReapOptions{}); err != nil {
			t.Error(err)
		}
	}()
	amount := strconv.Itoa(size)
	for name, way := range map[string]struct{ raw, ours func() (int64, error) }{
		"out": {
			func() (int64, error) { return rawOut(ctx, h.pool, "head -c "+amount+" /dev/zero") },
			func() (int64, error) {
				var c counter
				err := finish(ctx, sess, driver.Stdio{Stdout: &c}, "head", "-c", amount, "/dev/zero")
				return c.n, err
			},
		},
		"in": {
			func() (int64, error) { return rawIn(ctx, h.pool, size) },
			func() (int64, error) {
				var c counter
				in := io.LimitReader(zeros{}, size)
				err := finish(ctx, sess, driver.Stdio{Stdin: in, Stdout: &c}, "wc", "-c")
				return size, err
			},
		},
	} {
		best := func(f func() (int64, error)) float64 {
			begin := time.Now()
			n, err := f()
			if err != nil || n != size {
				t.Fatalf("%s: %d bytes, %v", name, n, err)
			}
			return size / time.Since(begin).Seconds() / 1e6
		}
		var raw, ours float64
		for range rounds {
			raw, ours = max(raw, best(way.raw)), max(ours, best(way.ours))
		}
		t.Logf("%s: %.1f MB/s, a bare channel %.1f MB/s: %.2f", name, ours, raw, ours/raw)
		if ours < goal*raw {
			t.Errorf("%s: %.2f of a bare channel, want %.2f", name, ours/raw, goal)
		}
	}
}

func finish(ctx context.Context, s driver.Session, io driver.Stdio, args ...string) error {
	c, err := s.Start(ctx, &spec.Command{Args: args}, io)
	if err != nil {
		return err
	}
	_, err = c.Wait(ctx)
	return err
}

func rawOut(ctx context.Context, p *pool, command string) (int64, error) {
	s, err := p.exec(ctx, command)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	return io.Copy(io.Discard, s)
}

func rawIn(ctx context.Context, p *pool, size int64) (int64, error) {
	s, err := p.exec(ctx, "wc -c")
	if err != nil {
		return 0, err
	}
	defer s.Close()
	n, err := io.CopyBuffer(struct{ io.Writer }{s}, io.LimitReader(zeros{}, size), make([]byte, 64<<10))
	if err != nil {
		return n, err
	}
	_ = s.CloseWrite()
	_, err = io.ReadAll(s)
	return n, err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
