//go:build linux

package ssh

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/testutil/sshtest"
	"github.com/berth-dev/berth/spec"
)

func testBin(t *testing.T, script string) guest.Bin {
	t.Helper()
	name := testFile(t, script)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return guest.Bin{Path: name, Hash: hex.EncodeToString(sum[:]), Size: int64(len(data))}
}

// An upload puts exactly the file where it belongs, for its owner alone, whatever the
// name of the remote directory: no part of a name is ever run.
func TestUpload(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	h := testHost(t, s, "", defaultTiming())
	bin := testBin(t, "exit 0")
	want, err := os.ReadFile(bin.Path)
	if err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	for _, name := range hostile {
		f := far{dir: filepath.Join(base, name)}
		last := int64(-1)
		err := h.pool.upload(testContext(t), f, bin, func(p spec.Progress) {
			if p.Done < last || p.Total != bin.Size {
				t.Errorf("%q: progress %+v after %d", name, p, last)
			}
			last = p.Done
		})
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if last != bin.Size {
			t.Errorf("%q: progress ended at %d of %d", name, last, bin.Size)
		}
		got, err := os.ReadFile(f.guestPath(bin.Hash))
		if err != nil || string(got) != string(want) {
			t.Errorf("%q: %v, or another file", name, err)
		}
		for _, p := range []string{f.dir, filepath.Join(f.dir, guestsDirName), f.guestPath(bin.Hash)} {
			if st, err := os.Stat(p); err != nil || st.Mode().Perm() != 0o700 {
				t.Errorf("%q: %v %v, want mode 0700", p, st.Mode(), err)
			}
		}
	}
	entries, err := os.ReadDir(base)
	if err != nil || len(entries) != len(hostile) {
		t.Errorf("%d entries in the base directory, want %d (%v)", len(entries), len(hostile), err)
	}
}

// Eight at once leave one whole file and nothing else.
func TestUploadRace(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	bin := testBin(t, "exit 0")
	f := far{dir: filepath.Join(t.TempDir(), "state")}
	var wg sync.WaitGroup
	for range 8 {
		h := testHost(t, s, "", defaultTiming())
		wg.Go(func() {
			if err := h.pool.upload(testContext(t), f, bin, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	onlyGuest(t, f, bin)
}

// onlyGuest fails the test unless the guest is all that there is.
func onlyGuest(t *testing.T, f far, bin guest.Bin) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(f.dir, guestsDirName))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != filepath.Base(f.guestPath(bin.Hash)) {
		t.Errorf("left in the directory: %v", entries)
	}
}

// An upload that fails says why, and leaves neither a file nor a part of one.
func TestUploadRefusals(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	h := testHost(t, s, "", defaultTiming())
	good := testBin(t, "exit 0")
	base := t.TempDir()
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bad := good
	bad.Hash = hex.EncodeToString(make([]byte, sha256.Size))
	for _, tc := range []struct {
		name, dir string
		bin       guest.Bin
		want      error
	}{
		{"another hash", filepath.Join(base, "hash"), bad, spec.ErrUnavailable},
		{"not runnable", filepath.Join(base, "run"), testBin(t, "exit 126"), spec.ErrUnsupported},
		{"a file in the way", filepath.Join(file, "x"), good, spec.ErrNotWritable},
		{"no directory can be made", "/proc/x", good, spec.ErrNotWritable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := far{dir: tc.dir}
			err := h.pool.upload(testContext(t), f, tc.bin, nil)
			if !errors.Is(err, tc.want) || spec.HintOf(err) == "" {
				t.Errorf("upload = %v, want %v with a hint", err, tc.want)
			}
			if entries, _ := os.ReadDir(filepath.Join(f.dir, guestsDirName)); len(entries) > 0 {
				t.Errorf("left: %v", entries)
			}
		})
	}
}

// A home that is mounted noexec is named as what it is.
func TestUploadNoExec(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOEXEC, "size=16m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	s := sshtest.Start(t, sshtest.Options{})
	h := testHost(t, s, "", defaultTiming())
	err := h.pool.upload(testContext(t), far{dir: filepath.Join(dir, "state")}, testBin(t, "exit 0"), nil)
	if !errors.Is(err, spec.ErrUnsupported) || spec.HintOf(err) == "" {
		t.Errorf("upload = %v, want unsupported with a hint", err)
	}
}

// A connection that breaks in mid-upload leaves nothing behind.
func TestUploadCut(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	p := sshtest.StartProxy(t, s.Addr, 0)
	h := testHost(t, s, p.Addr, defaultTiming())
	bin := testBin(t, "exit 0")
	f := far{dir: filepath.Join(t.TempDir(), "state")}
	cut := sync.OnceFunc(p.Cut)
	err := h.pool.upload(testContext(t), f, bin, func(pr spec.Progress) {
		if pr.Done > bin.Size/4 {
			cut()
		}
	})
	if !errors.Is(err, spec.ErrUnavailable) {
		t.Errorf("upload = %v, want unavailable", err)
	}
	eventually(t, "the part is removed", func() bool {
		entries, err := os.ReadDir(filepath.Join(f.dir, guestsDirName))
		return err == nil && len(entries) == 0
	})
	if err := h.pool.upload(testContext(t), f, bin, nil); err != nil {
		t.Errorf("the next upload: %v", err)
	}
	onlyGuest(t, f, bin)
}
