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
	"unsafe"

	"golang.org/x/sys/unix"

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
// program. Its report goes through a pipe that closes with the exec: reportReady
// right before it tries, then an errno if it fails. Without the first it has ended
// some other way, and an end of the pipe is no success.
const (
	reportFD    = 3
	reportReady = "ready\n"
	maxReport   = 256
	argNone     = "-"
)

// Become is the verb's work; args are what becomeArgs made. It returns only if the
// program cannot be executed, and has reported why.
func Become(args []string) error {
	unix.CloseOnExec(reportFD)
	report := os.NewFile(reportFD, "report")
	if report == nil {
		return errors.New("nobody listens")
	}
	// No thread is to be born from here on: a limit may forbid it.
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(1)
	b, err := parseBecome(args)
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

// becomeArgs are the arguments that make Become start l. The environment is among
// them: a runtime heeds variables that are meant for the program.
func (l *Launch) becomeArgs() []string {
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

var errBecome = errors.New("launch: the arguments make no sense")

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

// startBecoming starts l through a second execution of the guest.
func (l *Launch) startBecoming(r *Reaper, attr *syscall.ProcAttr) (*Process, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, startError(l.Args[0], err)
	}
	report, far := os.NewFile(uintptr(ends[0]), "report"), os.NewFile(uintptr(ends[1]), "report")
	defer report.Close()
	attr.Env, attr.Files = nil, append(attr.Files, far.Fd())
	p, err := r.Start("/proc/self/exe", slices.Concat([]string{l.Args[0]}, l.Self, l.becomeArgs()), attr)
	far.Close()
	if err != nil {
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the guest cannot be started a second time: %w", err)}
	}
	said, err := io.ReadAll(io.LimitReader(report, maxReport))
	if string(said) == reportReady && err == nil {
		return p, nil
	}
	_ = r.SignalGroup(p, unix.SIGKILL)
	<-p.Done
	return nil, l.reportError(string(said))
}

// reportError is what a report of failure means.
func (l *Launch) reportError(said string) error {
	rest, ready := strings.CutPrefix(said, reportReady)
	what, number, _ := strings.Cut(strings.TrimSuffix(rest, "\n"), " ")
	n, err := strconv.ParseUint(number, 10, 12)
	switch errno := syscall.Errno(n); {
	case !ready || err != nil || n == 0:
		return &spec.Error{Code: spec.CodeUnavailable, Err: errors.New("the guest was ended while it set up the command")}
	case what == "exec":
		return startError(l.Args[0], errno)
	case slices.Contains(spec.RlimitNames[:], what) && errno == unix.EPERM:
		return aboveHard(what, errno)
	case slices.Contains(spec.RlimitNames[:], what):
		return &spec.Error{Code: spec.CodeUnsupported, Err: fmt.Errorf("limit %s: %w", what, errno)}
	}
	return &spec.Error{Code: spec.CodeUnavailable, Err: errors.New("the guest does not say what went wrong")}
}
