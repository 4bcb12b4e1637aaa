//go:build linux

package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// noticeOf is what a place has to say of itself.
func noticeOf(t *testing.T, s driver.Session) string {
	t.Helper()
	status, err := s.Status(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return status.Notice
}

// ending listens to the end of a place, and says what it tells of.
func ending(t *testing.T, s driver.Session) <-chan []string {
	t.Helper()
	told, listens := make(chan []string, 1), make(chan struct{})
	ctx := within(t)
	go func() {
		var paths []string
		_ = s.(driver.Eventer).Events(ctx, spec.EventQuery{Follow: true}, func(e spec.Event) error { // it may be cut off by the end
			if e.Kind == spec.EventStarted {
				close(listens)
			}
			if e.Kind == spec.EventHostExecutable {
				paths = append(paths, e.Path)
			}
			return nil
		})
		told <- paths
	}()
	select {
	case <-listens:
	case <-ctx.Done():
		t.Fatal("no event is told")
	}
	return told
}

// TestMadeWhenNobodyLooks defends: what a child in the background makes of the things that
// programs outside obey, after the last command that could have told of it, is told by the
// events of the place when it ends, and by the next place that can write there, under
// whatever key, once: however the first one ended.
func TestMadeWhenNobodyLooks(t *testing.T) {
	needBwrap(t)
	for name, end := range map[string]func(t *testing.T, d driver.Driver, s driver.Session){
		"reaped": func(t *testing.T, d driver.Driver, _ driver.Session) {
			if err := d.Reap(within(t), "k", driver.ReapOptions{}); err != nil {
				t.Fatal(err)
			}
		},
		"stopped": func(t *testing.T, d driver.Driver, _ driver.Session) {
			if err := d.(driver.Stopper).Stop(within(t), "k", driver.ReapOptions{}); err != nil {
				t.Fatal(err)
			}
		},
		"by itself": func(t *testing.T, d driver.Driver, s driver.Session) {
			if err := s.Close(within(t)); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it ends", func() error {
				owned, err := d.Owned(within(t))
				if err == nil && (len(owned) != 1 || owned[0].State != spec.StateStopped) {
					err = fmt.Errorf("%+v", owned)
				}
				return err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			work := filepath.Join(far(t), "work")
			if err := os.Mkdir(work, 0o755); err != nil {
				t.Fatal(err)
			}
			d := open(t, options(t))
			first := spec.Spec{Key: "k", Workdir: work, Isolation: spec.IsolationGuard}
			if name == "by itself" {
				first.IdleTimeout = 3 * time.Second
			}
			s := provision(t, d, first)
			made := filepath.Join(work, ".envrc")
			if out, exit := sh(t, s, "setsid sh -c 'while ! [ -e go ]; do sleep 0.01; done; echo x >.envrc' >/dev/null 2>&1 & "); !exit.Success() || len(exit.HostExecutable) > 0 {
				t.Fatalf("%v %s", exit, out)
			}
			if err := os.WriteFile(filepath.Join(work, "go"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the child makes it", func() error {
				_, err := os.Stat(made)
				return err
			})
			told := ending(t, s)
			end(t, d, s)
			// Where it ends because nobody is there, nobody listens.
			if paths := <-told; name != "by itself" && (len(paths) != 1 || paths[0] != made) {
				t.Errorf("the events of the end tell of %q", paths)
			}
			for _, key := range []spec.Key{"other", "k", "third"} {
				notice := noticeOf(t, provision(t, d, spec.Spec{Key: key, Workdir: work, Isolation: spec.IsolationGuard, IdleTimeout: first.IdleTimeout}))
				if told := strings.Contains(notice, made); told != (key == "other") {
					t.Errorf("%s: %q", key, notice)
				}
			}
		})
	}
}

// TestTooManyToWatch defends: where more names would have to be watched for than there is
// room, the place says so.
func TestTooManyToWatch(t *testing.T) {
	needBwrap(t)
	base := far(t)
	var roots []string
	for i := range 80 {
		roots = append(roots, filepath.Join(base, fmt.Sprint(i)))
		if err := os.Mkdir(roots[i], 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := spec.Spec{Workdir: roots[0], WritableRoots: roots[1:], Isolation: spec.IsolationGuard}
	if notice := noticeOf(t, provision(t, open(t, options(t)), s)); !strings.Contains(notice, "too many writable directories") {
		t.Errorf("%q", notice)
	}
	s.WritableRoots = roots[1:20]
	if notice := noticeOf(t, provision(t, open(t, options(t)), s)); strings.Contains(notice, "too many writable directories") {
		t.Errorf("with fewer: %q", notice)
	}
}
