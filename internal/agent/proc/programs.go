//go:build linux

package proc

import "golang.org/x/sys/unix"

// HasCoreutils reports whether the commands that spec.Caps names are on a PATH.
func HasCoreutils(path string) bool {
	for _, name := range []string{"echo", "cat", "env", "pwd", "sleep", "true"} {
		if _, err := LookProgram(name, path, unix.AT_FDCWD); err != nil {
			return false
		}
	}
	return true
}

// Executable reports whether this process may execute a file.
func Executable(path string) bool { return unix.Access(path, unix.X_OK) == nil }
