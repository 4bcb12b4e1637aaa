//go:build !unix

package portcmd

// withdraw does nothing where there is no umask.
func withdraw() (restore func()) { return func() {} }
