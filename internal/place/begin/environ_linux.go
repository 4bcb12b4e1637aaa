package begin

import (
	"errors"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/spec"
)

// Environ is the environment of what is started on this side of the wall: of the wrapper,
// and of a guest, which does not serve with it.
func Environ() []string {
	return append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, quickExit...)
}

// Handed returns a file in memory with the environment of commands, each entry ended by a
// NUL, that nobody can change. It has no name, and its text is in no list of arguments. An
// entry with a NUL is CodeInvalid.
func Handed(environ []string) (*os.File, error) {
	var text strings.Builder
	for _, entry := range environ {
		if strings.Contains(entry, "\x00") {
			return nil, &spec.Error{Code: spec.CodeInvalid, Err: errors.New("the environment holds a NUL byte")}
		}
		text.WriteString(entry + "\x00")
	}
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("environ", flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // a kernel before 6.3
		fd, err = unix.MemfdCreate("environ", flags)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "environ")
	_, err = f.WriteString(text.String())
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Joined is the base environment with a spec's, which wins, in order.
func Joined(base []string, env map[string]string) []string {
	out := make([]string, 0, len(base)+len(env))
	for _, entry := range base {
		name, _, _ := strings.Cut(entry, "=")
		if _, ok := env[name]; !ok {
			out = append(out, entry)
		}
	}
	for name, value := range env {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}
