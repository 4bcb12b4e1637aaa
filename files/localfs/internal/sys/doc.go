//go:build !linux

// Package sys is empty: these system calls are Linux's.
package sys
