//go:build linux

package confine

import (
	"encoding/binary"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAttempts defends: an answer that did not arrive is given to the same question, asked
// again, and to no other.
func TestAttempts(t *testing.T) {
	const (
		tid    = 7
		cookie = 1
	)
	settles := func(errno syscall.Errno) func() (syscall.Errno, bool) {
		return func() (syscall.Errno, bool) { return errno, true }
	}
	for _, tt := range []struct {
		name    string
		told    bool
		cookie  uint64
		address string
		want    syscall.Errno
	}{
		{"again", false, cookie, "a", unix.EINPROGRESS},
		{"after the answer", true, cookie, "a", unix.EISCONN},
		{"another socket", false, 2, "a", unix.EISCONN},
		{"another address", false, cookie, "b", unix.EISCONN},
	} {
		var s attempts
		first, _ := s.begin(tid, cookie, []byte("a"), settles(unix.EINPROGRESS))
		s.tell(tid, first, func() bool { return tt.told })
		second, got := s.begin(tid, tt.cookie, []byte(tt.address), settles(unix.EISCONN))
		if got != tt.want || !second.settled {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		if _, _, over := first.again(settles(0)); over == tt.told {
			t.Errorf("%s: the first attempt is over: %v", tt.name, over)
		}
	}
}

// TestWatch defends: calls that hang do not hold up others, and workers do not grow in
// number beyond their bound.
func TestWatch(t *testing.T) {
	w := watch{workers: 1}
	started := make(chan struct{}, 2*maxWorkers)
	hang := func() { started <- struct{}{} }
	w.begin(hang)
	for n := 2; n <= maxWorkers; n++ {
		select {
		case <-started:
			w.begin(hang)
		case <-time.After(10 * time.Second):
			t.Fatalf("no worker %d", n)
		}
	}
	time.Sleep(5 * lookEvery)
	if len(started) > 0 || w.workers != maxWorkers {
		t.Errorf("%d workers, %d more", w.workers, len(started))
	}
	left := 0
	for range maxWorkers {
		if !w.end() {
			left++
		}
	}
	if left != 1 || w.workers != 1 {
		t.Errorf("%d workers go on, %d are counted", left, w.workers)
	}
}

// TestDiag defends: the kernel's answer about a socket is read as it is meant, and a socket
// that is gone has none.
func TestDiag(t *testing.T) {
	d, err := newDiag()
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	path := filepath.Join(t.TempDir(), "s")
	for _, address := range []string{path, "@confine-diag\x00\x00x"} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: address})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := l.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var id socketID
		if controlErr := raw.Control(func(fd uintptr) { id, err = identify(int(fd)) }); controlErr != nil || err != nil {
			t.Fatal(controlErr, err)
		}
		want := name{abstract: "\x00" + address[1:], kind: unix.SOCK_STREAM}
		if address == path {
			var st unix.Stat_t
			if err := unix.Stat(path, &st); err != nil {
				t.Fatal(err)
			}
			want = statName(&st)
			fd, err := openPath(path)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := inodeName(fd); got.inode == 0 || got.dev == 0 {
				t.Errorf("by the kernel's own numbers: %+v", got)
			}
			unix.Close(fd)
		}
		if got, err := d.bound(id); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", address, got, err, want)
		}
		other := id
		other.cookie++
		if got, err := d.bound(other); err == nil {
			t.Errorf("another cookie: %+v", got)
		}
		l.Close()
		if got, err := d.bound(id); err == nil {
			t.Errorf("closed: %+v", got)
		}
	}
}

// TestNumbersOnce defends: the number of an inode is taken for a socket's name only where no
// other inode of the file system has the same 32 bits.
func TestNumbersOnce(t *testing.T) {
	const (
		btrfs, bcachefs = 0x9123683e, 0xca451a4e
		nfs, fuse, cifs = 0x6969, 0x65735546, 0xff534d42
		block           = 4096
	)
	for _, tt := range []struct {
		name string
		kind int64
		size uint64
		want bool
	}{
		{"ext4", unix.EXT4_SUPER_MAGIC, 1 << 50, true},
		{"tmpfs", unix.TMPFS_MAGIC, 1 << 40, true},
		{"overlay", unix.OVERLAYFS_SUPER_MAGIC, 1 << 40, true},
		{"a small xfs", unix.XFS_SUPER_MAGIC, 500 << 30, true},
		{"a large xfs", unix.XFS_SUPER_MAGIC, 512 << 30, false},
		{"btrfs", btrfs, 1 << 30, false},
		{"bcachefs", bcachefs, 1 << 30, false},
		{"nfs", nfs, 1 << 30, false},
		{"fuse", fuse, 1 << 30, false},
		{"cifs", cifs, 1 << 30, false},
		{"one that nobody knows", 1, 1 << 30, false},
	} {
		fs := unix.Statfs_t{Blocks: tt.size / block, Bsize: block, Type: tt.kind}
		if got := numbersOnce(&fs); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// FuzzDiag defends: no message of the kernel's, however it is cut, ends the guest.
func FuzzDiag(f *testing.F) {
	message := make([]byte, unix.NLMSG_HDRLEN+unixDiagMsgBytes+12)
	binary.NativeEndian.PutUint32(message, uint32(len(message)))
	binary.NativeEndian.PutUint16(message[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(message[unix.NLMSG_HDRLEN+unixDiagMsgBytes:], 12)
	binary.NativeEndian.PutUint16(message[unix.NLMSG_HDRLEN+unixDiagMsgBytes+2:], unixDiagVFS)
	f.Add(message)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= unix.NLMSG_HDRLEN {
			_, _ = parseDiag(b)
		}
	})
}

// TestListenersForget defends: the memory of listeners does not grow with those that are
// gone.
func TestListenersForget(t *testing.T) {
	d, err := newDiag()
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	l := newListeners(d)
	for n := range uint32(minListeners) {
		l.byName[name{dev: 1, inode: n + 1}] = socketID{number: n, cookie: 1 << 60}
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "@"}); err != nil { // a name of the kernel's choice
		t.Fatal(err)
	}
	id, err := identify(fd)
	if err != nil {
		t.Fatal(err)
	}
	l.add(id)
	if len(l.byName) != 1 {
		t.Errorf("%d listeners are remembered", len(l.byName))
	}
	n, err := d.bound(id)
	if err != nil {
		t.Fatal(err)
	}
	if yes, known := l.lives(n); !yes || !known {
		t.Errorf("the one that lives is forgotten")
	}
}
