//go:build linux

package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/starter"
	"github.com/berth-dev/berth/spec"
)

// Setup is what a process can set for itself only, before it becomes a program. The
// zero value sets nothing.
type Setup struct {
	Umask   *uint32
	Rlimits map[string]uint64
}

func (s *Setup) empty() bool { return s.Umask == nil && len(s.Rlimits) == 0 }

// Check refuses limits above the hard ones of this process, which its children
// inherit: a privileged one could lift them.
func (s *Setup) Check() error {
	for i, name := range spec.RlimitNames {
		value, asked := s.Rlimits[name]
		if !asked {
			continue
		}
		var now unix.Rlimit
		if err := unix.Getrlimit(i, &now); err != nil {
			return &spec.Error{Code: spec.CodeUnsupported, Err: fmt.Errorf("limit %s: %w", name, err)}
		}
		if value > now.Max {
			return aboveHard(name, unix.EPERM)
		}
	}
	return nil
}

func aboveHard(name string, errno syscall.Errno) error {
	return &spec.Error{Code: spec.CodePermission, Err: fmt.Errorf("limit %s: it is above the place's hard one: %w", name, errno)}
}

// A process with a Setup is started in two steps: the guest executes itself again
// with a verb, which is Become, and that sets what is to be set and executes the
// program. What that is lies in a sealed file that it inherits: a command line can be
// read by everybody. Its report goes through a socket, which nobody can open by its
// name in /proc, and which closes with the exec: reportReady right before it tries,
// then an errno if it fails. Without the first it has ended some other way, and an end
// of the stream is no success.
const (
	reportFD    = 3
	parcelFD    = 4
	reportReady = "ready\n"
	maxReport   = 256
	argNone     = "-"
)

// Become is the verb's work. It returns only if the program cannot be executed, and
// has reported why.
func Become() error {
	unix.CloseOnExec(reportFD)
	unix.CloseOnExec(parcelFD)
	report, parcel := os.NewFile(reportFD, "report"), os.NewFile(parcelFD, "parcel")
	if report == nil || parcel == nil {
		return errors.New("nobody listens")
	}
	// No thread is to be born from here on: a limit may forbid it.
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(1)
	words, err := unpack(parcel)
	if err != nil {
		return err
	}
	b, err := parseBecome(words)
	if err != nil {
		return err
	}
	// Go has raised the soft limit on open files, and takes that back on the way
	// to an exec only. This one cannot succeed.
	_ = syscall.Exec("/", nil, nil)
	image, err := newImage(b)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(report, reportReady); err != nil {
		return err
	}
	what, errno := b.become(image)
	fmt.Fprintf(report, "%s %d\n", what, int(errno))
	return errno
}

// pack writes words into a file in memory that nobody can change any more.
func pack(words []string) (*os.File, error) {
	var text strings.Builder
	for _, w := range words {
		if strings.IndexByte(w, 0) >= 0 {
			return nil, unix.EINVAL // as execve(2) has it
		}
		text.WriteString(w)
		text.WriteByte(0)
	}
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("parcel", flags|unix.MFD_NOEXEC_SEAL)
	if err == unix.EINVAL { // a kernel before 6.3
		fd, err = unix.MemfdCreate("parcel", flags)
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "parcel")
	_, err = f.WriteAt([]byte(text.String()), 0)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		f.Close()
		return nil, errnoOf(err)
	}
	return f, nil
}

// unpack reads what pack wrote.
func unpack(f *os.File) ([]string, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, st.Size())
	if _, err := f.ReadAt(data, 0); err != nil {
		return nil, err
	}
	rest, ok := strings.CutSuffix(string(data), "\x00")
	if !ok {
		return nil, errBecome
	}
	return strings.Split(rest, "\x00"), nil
}

// becoming is a Setup and a program, as they cross the exec.
type becoming struct {
	umask     int // negative: as it is
	rlimits   []rlimit
	path      string
	argv, env []string
}

type rlimit struct {
	resource int
	value    uint64
}

// parcel is what makes Become start l. The environment is in it, and is not that of
// the process: a runtime heeds variables that are meant for the program.
func (l *Launch) parcel() []string {
	umask, limits := argNone, argNone
	if l.Setup.Umask != nil {
		umask = strconv.FormatUint(uint64(*l.Setup.Umask), 8)
	}
	var list []string
	for i, name := range spec.RlimitNames {
		if value, asked := l.Setup.Rlimits[name]; asked {
			list = append(list, strconv.Itoa(i)+"="+strconv.FormatUint(value, 10))
		}
	}
	if len(list) > 0 {
		limits = strings.Join(list, ",")
	}
	return slices.Concat([]string{umask, limits, l.Path, strconv.Itoa(len(l.Args))}, l.Args, l.Env)
}

var errBecome = errors.New("launch: the parcel makes no sense")

func parseBecome(args []string) (*becoming, error) {
	if len(args) < 4 {
		return nil, errBecome
	}
	b := &becoming{umask: -1, path: args[2]}
	if args[0] != argNone {
		mask, err := strconv.ParseUint(args[0], 8, 9)
		if err != nil {
			return nil, errBecome
		}
		b.umask = int(mask)
	}
	if args[1] != argNone {
		for _, entry := range strings.Split(args[1], ",") {
			number, text, _ := strings.Cut(entry, "=")
			resource, err1 := strconv.ParseUint(number, 10, 8)
			value, err2 := strconv.ParseUint(text, 10, 64)
			if err1 != nil || err2 != nil || resource >= uint64(len(spec.RlimitNames)) {
				return nil, errBecome
			}
			b.rlimits = append(b.rlimits, rlimit{int(resource), value})
		}
	}
	n, err := strconv.Atoi(args[3])
	rest := args[4:]
	if err != nil || n < 1 || n > len(rest) {
		return nil, errBecome
	}
	b.argv, b.env = rest[:n], rest[n:]
	return b, nil
}

// image is a program as execve(2) wants it.
type image struct {
	path      *byte
	argv, env []*byte
}

func newImage(b *becoming) (i image, err error) {
	if i.path, err = syscall.BytePtrFromString(b.path); err != nil {
		return i, err
	}
	if i.argv, err = syscall.SlicePtrFromStrings(b.argv); err != nil {
		return i, err
	}
	i.env, err = syscall.SlicePtrFromStrings(b.env)
	return i, err
}

// become says what failed, if it returns. Nothing in it takes memory or lets the
// runtime work: the limits hold for this process too, which the runtime would end.
func (b *becoming) become(i image) (what string, errno syscall.Errno) {
	if b.umask >= 0 {
		unix.Umask(b.umask)
	}
	for _, l := range b.rlimits {
		limit := unix.Rlimit{Cur: l.value, Max: l.value}
		if _, _, errno := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(l.resource), uintptr(unsafe.Pointer(&limit)), 0, 0, 0); errno != 0 {
			return spec.RlimitNames[l.resource], errno
		}
	}
	_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(i.path)), uintptr(unsafe.Pointer(&i.argv[0])), uintptr(unsafe.Pointer(&i.env[0])))
	return "exec", errno
}

// The bounds on a start that others may hold up: one process of a place can stop
// another that has not become its program yet. It is continued every nudge, and given
// up after startTime.
const (
	nudge     = 100 * time.Millisecond
	startTime = 10 * time.Second
)

// startBecoming starts l through a second execution of the guest.
func (l *Launch) startBecoming(r *Reaper, attr *syscall.ProcAttr, group *Group) (*Process, *Group, error) {
	parcel, err := pack(l.parcel())
	if err != nil {
		return nil, nil, startError(l.Args[0], err)
	}
	defer parcel.Close()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, startError(l.Args[0], err)
	}
	err = unix.SetNonblock(ends[0], true)
	report, far := os.NewFile(uintptr(ends[0]), "report"), os.NewFile(uintptr(ends[1]), "report")
	defer report.Close()
	defer far.Close()
	if err != nil {
		return nil, nil, startError(l.Args[0], err)
	}
	attr.Env, attr.Files = nil, append(attr.Files, far.Fd(), parcel.Fd())
	again := &starter.Program{Path: "/proc/self/exe", Args: append([]string{"berth-guest"}, l.Self...), Dir: l.Dir.FD, Attr: attr}
	p, group, err := r.startIn(group, again)
	if err != nil {
		return nil, nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the guest cannot be started a second time: %w", err)}
	}
	far.Close()
	said, err := hear(report, startTime, func() { _ = r.SignalGroup(p, unix.SIGCONT) })
	if said == reportReady && err == nil {
		return p, group, nil
	}
	_ = r.SignalGroup(p, unix.SIGKILL)
	select {
	case <-p.Done:
	case <-time.After(KillTime):
	}
	return nil, nil, l.reportError(said)
}

// hear reads a report to its end, for most at longest, and calls remind whenever it
// keeps its listener waiting.
func hear(report *os.File, most time.Duration, remind func()) (string, error) {
	var said []byte
	buf := make([]byte, maxReport)
	for end := time.Now().Add(most); ; {
		if err := report.SetReadDeadline(time.Now().Add(nudge)); err != nil {
			return string(said), err
		}
		n, err := report.Read(buf[:maxReport-len(said)])
		said = append(said, buf[:n]...)
		switch {
		case err == io.EOF:
			return string(said), nil
		case len(said) == maxReport:
			return string(said), errors.New("the report does not end")
		case errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(end):
			remind()
		case err != nil:
			return string(said), err
		}
	}
}

// reportError is what a report of failure means. Where it has said that it is ready and
// nothing that can be believed of a failure, the program may have begun.
func (l *Launch) reportError(said string) error {
	rest, ready := strings.CutPrefix(said, reportReady)
	what, number, _ := strings.Cut(strings.TrimSuffix(rest, "\n"), " ")
	n, err := strconv.ParseUint(number, 10, 12)
	switch errno := syscall.Errno(n); {
	case !ready:
		return &spec.Error{Code: spec.CodeUnavailable, Err: errors.New("the guest was ended while it set up the command, or was held up")}
	case err != nil || n == 0:
	case what == "exec":
		return startError(l.Args[0], errno)
	case slices.Contains(spec.RlimitNames[:], what) && errno == unix.EPERM:
		return aboveHard(what, errno)
	case slices.Contains(spec.RlimitNames[:], what):
		return &spec.Error{Code: spec.CodeUnsupported, Err: fmt.Errorf("limit %s: %w", what, errno)}
	}
	return &spec.Error{Code: spec.CodeUnknownOutcome, Err: errors.New("the command was ended while it began: what set it up was interfered with")}
}
