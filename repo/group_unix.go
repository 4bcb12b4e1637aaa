//go:build unix

package repo

import (
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// group has the end of a command be that of all that it has started.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// foreign reports whether a file belongs to another user: its configuration could run
// programs as us.
func foreign(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) != os.Geteuid()
}

// openQuietly waits for no pipe and follows no link.
const openQuietly = syscall.O_NONBLOCK | syscall.O_NOFOLLOW
