package fake_test

import (
	"os/exec"
	"syscall"
)

// signal is the signal that ended a command.
func signal(c *exec.Cmd) int { return int(c.ProcessState.Sys().(syscall.WaitStatus).Signal()) }
