package place

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/internal/procstat"
	"golang.org/x/sys/unix"
)

// proc is one process: a pid and the tick at which it started, so that a recycled
// pid is another process. Of one that /proc has never shown the ticks are 0.
type proc struct {
	pid   int
	ticks uint64
}

// identify names the process that has pid now.
func identify(pid int) (proc, error) {
	st, err := procstat.Read(pid)
	return proc{pid, st.Ticks}, err
}

// alive reports whether p is known to run.
func (p proc) alive() bool {
	runs, err := p.runs()
	return runs && err == nil
}

// runs reports whether p runs. An error says that it cannot be told: a host that has no
// descriptors left does not see a process, and must not take it for gone. It is
// procstat.ErrHidden where it will never be told.
func (p proc) runs() (bool, error) {
	st, err := procstat.Read(p.pid)
	if procstat.Vanished(err) { // or another thread has just taken the pid over, to execute a program
		st, err = procstat.Read(p.pid)
	}
	switch {
	case procstat.Vanished(err):
		return false, nil
	case err != nil:
		return false, hostError(err)
	case p.ticks == 0:
		return false, procstat.ErrHidden
	}
	return st.Ticks == p.ticks && !st.Dead(), nil
}

// handle is a hold on one process that no recycled pid can take over.
type handle struct {
	proc
	file *os.File
}

// open returns a handle, or nil if p is gone.
func (p proc) open() (*handle, error) {
	fd, err := unix.PidfdOpen(p.pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		// While a process is being reaped its pid is no process any more and not free yet:
		// Linux 6.1 calls that an invalid argument.
		if runs, err := p.runs(); !runs && err == nil {
			return nil, nil
		}
		return nil, hostError(os.NewSyscallError("pidfd_open", err))
	}
	h := &handle{p, os.NewFile(uintptr(fd), "pidfd")}
	// The descriptor holds whatever had the pid when it was opened: if that is p
	// now, it was then.
	if runs, err := p.runs(); !runs {
		h.file.Close()
		return nil, err
	}
	return h, nil
}

// kill sends KILL. A process that has ended is no error.
func (h *handle) kill() error {
	raw, err := h.file.SyscallConn()
	if err != nil {
		return err
	}
	var kerr error
	if err := raw.Control(func(fd uintptr) { kerr = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) }); err != nil {
		return err
	}
	if kerr != nil && !errors.Is(kerr, unix.ESRCH) {
		return os.NewSyscallError("pidfd_send_signal", kerr)
	}
	return nil
}

// wait returns true when the process has ended, false when ctx ends first.
func (h *handle) wait(ctx context.Context) (bool, error) {
	raw, err := h.file.SyscallConn()
	if err != nil {
		return false, err
	}
	stop := context.AfterFunc(ctx, func() { _ = h.file.SetReadDeadline(time.Unix(1, 0)) })
	defer func() {
		stop()
		_ = h.file.SetReadDeadline(time.Time{})
	}()
	err = raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n > 0 || (err != nil && !errors.Is(err, unix.EINTR))
	})
	switch {
	case err == nil:
		h.waitReaped()
		return true, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, nil
	}
	return false, err
}

// waitReaped gives the goroutine of this process that waits for an ended child a moment
// to take it off the process table. A zombie of another parent is that one's affair.
func (h *handle) waitReaped() {
	for wait := 100 * time.Microsecond; wait < 200*time.Millisecond; wait *= 2 {
		if st, err := procstat.Read(h.pid); err != nil || st.Ticks != h.ticks || st.PPID != os.Getpid() {
			return
		}
		time.Sleep(wait)
	}
}

func (h *handle) close() { h.file.Close() }

// bootID names this boot of the machine: start ticks count from it.
func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", hostError(err)
	}
	return strings.TrimSpace(string(data)), nil
}

// pidNamespace names the pid namespace of this process; 0: it cannot be told.
func pidNamespace() uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}

// foreign reports whether the pids of r are those of another pid namespace, in which
// they may be anybody's or nobody's here.
func (r *Record) foreign() bool {
	here := pidNamespace()
	return r.PIDNamespace != 0 && here != 0 && r.PIDNamespace != here
}

// processes lists all pids.
func processes() []int {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(filepath.Base(name)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// descendants lists what p has started, directly or not, and is still related to it.
func descendants(p proc) []proc {
	type node struct {
		proc
		ppid int
	}
	var all []node
	for _, pid := range processes() {
		if st, err := procstat.Read(pid); err == nil {
			all = append(all, node{proc{pid, st.Ticks}, st.PPID})
		}
	}
	var out []proc
	for queue := []int{p.pid}; len(queue) > 0; queue = queue[1:] {
		for _, n := range all {
			if n.ppid == queue[0] && n.pid != p.pid {
				out = append(out, n.proc)
				queue = append(queue, n.pid)
			}
		}
	}
	return out
}

// servants lists the processes of ours that were started as the guest of the place in
// dir, or as its wrapper, with all that descends from them: the way to a guest whose
// starter died before it could write down its pid. They are told by the name that spawn
// gave them. Only a program of our own user can claim it, and all that it gains is to be
// ended.
func servants(dir string) []proc {
	var out []proc
	mark := []byte(processName(dir) + "\x00")
	for _, pid := range processes() {
		base := "/proc/" + strconv.Itoa(pid)
		p, err := identify(pid)
		if err != nil || pid == os.Getpid() {
			continue
		}
		if args, err := os.ReadFile(base + "/cmdline"); err != nil || !bytes.HasPrefix(args, mark) {
			continue
		}
		if uid, ok := realUID(base); ok && uid == os.Getuid() {
			out = append(append(out, p), descendants(p)...)
		}
	}
	return out
}

// servesPlace reports whether p is a process of ours that was started for the place id
// in dir: by the name that spawn gave it, or by the guest's arguments, which a wrapper
// has among its own. A record alone is no reason to signal anybody. dropped, unless it
// is 0, is the user that the guest has become. An error says that it cannot be told.
func servesPlace(p proc, dir, id string, dropped int) (bool, error) {
	base := "/proc/" + strconv.Itoa(p.pid)
	var args []byte
	// A program that has just been started has no arguments yet for a moment.
	for wait := time.Millisecond; wait < time.Second && len(args) == 0; wait *= 2 {
		runs, err := p.runs()
		if err == nil && runs {
			args, err = os.ReadFile(base + "/cmdline")
		}
		switch {
		case err != nil && !procstat.Vanished(err):
			return false, hostError(err)
		case err != nil || !runs:
			return false, nil
		case len(args) == 0:
			time.Sleep(wait)
		}
	}
	if !bytes.HasPrefix(args, []byte(processName(dir)+"\x00")) && !bytes.Contains(args, []byte("\x00serve\x00--id\x00"+id+"\x00")) {
		return false, nil
	}
	uid, ok := realUID(base)
	if !ok {
		_, err := p.runs()
		return false, err
	}
	return uid == os.Getuid() || dropped != 0 && uid == dropped, nil
}

// processName is what the guest of the place in dir, or its wrapper, is called in the
// list of processes.
func processName(dir string) string {
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	return "berth-guest:" + dir
}

// realUID reads it where the owner of the directory does not tell: a process that may
// not be dumped belongs to root there.
func realUID(dir string) (int, bool) {
	data, err := os.ReadFile(dir + "/status")
	if err != nil {
		return 0, false
	}
	_, line, _ := strings.Cut(string(data), "\nUid:")
	line, _, _ = strings.Cut(line, "\n")
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return 0, false
	}
	uid, err := strconv.Atoi(fields[0])
	return uid, err == nil
}
