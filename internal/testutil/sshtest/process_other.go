//go:build unix && !linux

package sshtest

import "syscall"

func sysProcAttr() *syscall.SysProcAttr { return nil }

type child struct{}

// childrenOf knows no way to list them here: connections end with the test's own
// ends of them.
func childrenOf(int) []child { return nil }

func (child) kill(syscall.Signal) {}
