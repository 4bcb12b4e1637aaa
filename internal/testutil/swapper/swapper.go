//go:build linux

package swapper

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Canary is in every file outside, in no file inside and in every name that is outside
// only.
const Canary = "canary-that-nobody-may-see"

// Attempts is how often each operation is tried: 10,000 times where BERTH_TEST_SOAK is
// set.
func Attempts() int {
	switch {
	case os.Getenv("BERTH_TEST_SOAK") != "":
		return 10_000
	case testing.Short():
		return 30
	}
	return 100
}

// Outside is a directory that must stay as it is.
type Outside struct {
	Dir    string
	before map[string]string
}

// NewOutside makes the directory, with the names that an arena has inside, and one more.
func NewOutside(t testing.TB, dir string) *Outside {
	t.Helper()
	for _, name := range []string{"file", "dir/file", "dir/deeper/file", "only-" + Canary} {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(Canary), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	o := &Outside{Dir: dir}
	o.before = o.snapshot(t)
	return o
}

// Check fails if anything in the directory is not what it was: names, inodes, modes,
// owners, bytes and times of change.
func (o *Outside) Check(t testing.TB) {
	t.Helper()
	if now := o.snapshot(t); !maps.Equal(now, o.before) {
		t.Errorf("something outside was touched:\n%v\nbefore:\n%v", now, o.before)
	}
}

func (o *Outside) snapshot(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(o.Dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		text := fmt.Sprint(st.Ino, info.Mode(), st.Uid, st.Gid, st.Nlink, info.Size(), st.Mtim, st.Ctim)
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += string(data)
		}
		out[p] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Swaps is two names that are exchanged, again and again.
type Swaps struct {
	stop  atomic.Bool
	done  chan struct{}
	count atomic.Int64
}

// Swap begins to exchange two names and returns once it has done so. Stop ends it.
func Swap(a, b string) *Swaps {
	s := &Swaps{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for n := 0; !s.stop.Load(); n++ {
			if unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) == nil {
				s.count.Add(1)
			}
			if n%5 == 0 { // an odd number of swaps: it rests on either side
				time.Sleep(10 * time.Microsecond)
			}
		}
	}()
	for s.count.Load() == 0 {
		time.Sleep(10 * time.Microsecond)
	}
	return s
}

// Stop ends the exchanging and says how often it was done.
func (s *Swaps) Stop() int64 {
	s.stop.Store(true)
	<-s.done
	return s.count.Load()
}

// Arena is a directory below which a name is now a directory, now a link to Outside.
type Arena struct {
	outside *Outside
	real    *os.File // the directory that is swapped, wherever it is
	swaps   *Swaps
}

// Swapped is the name in an arena that is swapped; what it is swapped with is beside it.
const (
	Swapped = "swap"
	link    = "evil"
)

// NewArena makes dir and returns once Swapped in it is being swapped. Stop ends that.
func NewArena(t testing.TB, dir string, o *Outside) *Arena {
	t.Helper()
	name := filepath.Join(dir, Swapped)
	if err := errors.Join(os.MkdirAll(name, 0o755), os.Symlink(o.Dir, filepath.Join(dir, link))); err != nil {
		t.Fatal(err)
	}
	real, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	a := &Arena{outside: o, real: real}
	a.Fill(t)
	a.swaps = Swap(name, filepath.Join(dir, link))
	return a
}

// Fill puts back what an attempt may have taken away or changed inside, without using
// the name that is swapped.
func (a *Arena) Fill(t testing.TB) {
	t.Helper()
	for _, name := range []string{"file", "dir/file", "dir/deeper/file"} {
		name = a.Inside(name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("inside"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// Inside is a path to something in the directory that is swapped which holds wherever
// that is.
func (a *Arena) Inside(name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", a.real.Fd(), name)
}

// Stop ends the swapping, fails if something outside was touched, and says how often
// it was swapped.
func (a *Arena) Stop(t testing.TB) int64 {
	t.Helper()
	n := a.swaps.Stop()
	a.real.Close()
	a.outside.Check(t)
	return n
}

// Seen fails if the canary is in text: it came from outside.
func Seen(t testing.TB, what, text string) {
	t.Helper()
	if strings.Contains(text, Canary) {
		t.Errorf("%s: the canary is seen: %.200q", what, text)
	}
}

// SeenBelow fails if the canary is in a name or in a file below dir, links not followed.
// Nothing may be swapped in it any more.
func SeenBelow(t testing.TB, what, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		Seen(t, what, strings.TrimPrefix(p, dir))
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(p)
		if err == nil {
			Seen(t, what+" "+p, string(data))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
