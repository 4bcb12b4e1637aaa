//go:build linux

package confine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const attempts = 10_000

// swap connects again and again while other threads change what the call was made with:
// the bytes of the address, what the descriptor is, and what the names lead to. Its
// arguments are the writable directory and a listener outside; a name in the directory leads there.
func swap(args []string) error {
	dir, outside := args[0], args[1]
	l, err := listen(unix.SOCK_STREAM, filepath.Join(dir, "in"), 512)
	if err != nil {
		return err
	}
	go drain(l)
	abstract, err := listen(unix.SOCK_STREAM, "@"+dir, 512)
	if err != nil {
		return err
	}
	go drain(abstract)
	tcp, port := inetListen(512)
	go drain(tcp)

	// What is swapped is as long as what it is swapped with.
	in, out := address(filepath.Join(dir, "in\x00")), address(filepath.Join(dir, "out"))
	inet := loopbackAs(port, len(out))
	shared := make([]byte, len(out))
	fd, err := socket(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	var stop atomic.Bool
	var swappers sync.WaitGroup
	for _, s := range []func(n int){
		// One writer of the bytes: two would race with each other, which is not the point.
		func(n int) { copy(shared, [][]byte{in, out, inet}[n%3]) },
		func(n int) {
			kind := inetSocket(unix.SOCK_STREAM)
			if n%3 > 0 {
				unix.Close(kind)
				kind, _ = socket([]int{unix.SOCK_STREAM, unix.SOCK_SEQPACKET}[n%2])
			}
			_ = unix.Dup3(kind, fd, unix.O_CLOEXEC)
			unix.Close(kind)
		},
		func(n int) {
			_ = unix.Renameat2(-1, filepath.Join(dir, "in"), -1, filepath.Join(dir, "out"), unix.RENAME_EXCHANGE)
		},
		func(n int) {
			link := filepath.Join(dir, "link")
			_ = os.Symlink([]string{outside, filepath.Join(dir, "in")}[n%2], link+"2")
			_ = os.Rename(link+"2", link)
		},
	} {
		swappers.Go(func() {
			for n := 0; !stop.Load(); n++ {
				s(n)
				if n%8 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	count := map[string]int{}
	for n := range attempts {
		switch n % 3 {
		case 0: // a descriptor and an address that change
			count[name(call(unix.SYS_CONNECT, fd, shared))]++
		case 1:
			count[name(dial(unix.SOCK_STREAM, filepath.Join(dir, "link")))]++
		case 2:
			count[name(dial(unix.SOCK_STREAM, filepath.Join(dir, "in")))]++
		}
	}
	stop.Store(true)
	swappers.Wait()
	fmt.Fprintln(os.Stderr, count)
	fmt.Println(count["ok"] > attempts/100, count["EACCES"] > attempts/100)
	return nil
}

// loopbackAs is an internet address in a buffer of a length.
func loopbackAs(port, size int) []byte {
	b := make([]byte, size)
	copy(b, loopback(port))
	return b
}

// TestSwap defends: nothing that is changed between the check and the connection leads out:
// 10,000 attempts.
func TestSwap(t *testing.T) {
	dir, other := openDir(t), openDir(t)
	var all []*outside
	for _, n := range []string{filepath.Join(dir, "out"), filepath.Join(other, "out")} {
		all = append(all, listenOutside(t, n))
	}
	out := place{openNetwork: true}.run(t, dir, "swap", dir, filepath.Join(other, "out"))
	t.Log(out)
	if !strings.Contains(out, "true true\n") {
		t.Error("the swapping came to nothing")
	}
	for _, o := range all {
		if n := o.accepted.Load(); n != 0 {
			t.Errorf("%s: %d connections came out", o.addr, n)
		}
	}
}

// signals connects while its threads get signals without end.
func signals(args []string) error {
	tcp, port := inetListen(512)
	go drain(tcp)
	l, err := listen(unix.SOCK_STREAM, "s", 512)
	if err != nil {
		return err
	}
	go drain(l)
	runtime.LockOSThread()
	tid, pid := unix.Gettid(), os.Getpid()
	var stop atomic.Bool
	var sender sync.WaitGroup
	sender.Go(func() {
		for !stop.Load() {
			_ = unix.Tgkill(pid, tid, unix.SIGURG)
			time.Sleep(20 * time.Microsecond)
		}
	})
	count := map[string]int{}
	for n := range 3000 {
		fd := inetSocket(unix.SOCK_STREAM | []int{0, unix.SOCK_NONBLOCK}[n%2])
		err := call(unix.SYS_CONNECT, fd, loopback(port))
		if err == unix.EINPROGRESS {
			err = pending(fd)
		}
		count[name(err)]++
		unix.Close(fd)
		count[name(dial(unix.SOCK_STREAM, "s"))]++
	}
	stop.Store(true)
	sender.Wait()
	fmt.Println(count)
	return nil
}

// TestSignals defends: a signal that takes a caller out of the call and puts it back in
// changes nothing about the result, but in the rare case that the package names: a connection
// which was made, and is said to have been.
func TestSignals(t *testing.T) {
	out := (place{}).run(t, openDir(t), "signals")
	var made, told int
	if _, err := fmt.Sscanf(out, "map[EISCONN:%d ok:%d]\n", &told, &made); err != nil {
		if _, err := fmt.Sscanf(out, "map[ok:%d]\n", &made); err != nil {
			t.Fatal(out)
		}
	}
	if made+told != 6000 || told > 60 {
		t.Error(out)
	}
}
