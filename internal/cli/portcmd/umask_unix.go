//go:build unix

package portcmd

import "syscall"

// withdraw keeps what is made until the function that it returns is called from everybody
// else.
func withdraw() (restore func()) {
	old := syscall.Umask(0o077)
	return func() { syscall.Umask(old) }
}
