//go:build !linux

package selfexec

// Main returns: a guest runs on Linux only.
func Main() {}
