//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"

	"github.com/berth-dev/berth"
)

// gigabyte is what the stream rows move: a row's MB/s is a billion divided by its
// microseconds.
const gigabyte = 1_000_000_000

// pour is a command that writes a gigabyte as fast as it can. It is not head, whose busybox
// kind takes byte for byte and is what would be measured.
var pour = []string{"dd", "if=/dev/zero", "bs=" + strconv.Itoa(gigabyte/1000), "count=1000"}

// counter takes bytes and counts them.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

func (c *counter) want() error {
	if c.n != gigabyte {
		return fmt.Errorf("%d bytes came of %d", c.n, gigabyte)
	}
	return nil
}

// streamRow is a gigabyte of output, against the plain way to the same place.
func streamRow(name string, sb *berth.Sandbox, against alternative) row {
	return row{name: "stdout 1 GB", backend: name, large: true, against: []alternative{against}, ours: func(ctx context.Context) error {
		c, out := sb.CommandContext(ctx, pour[0], pour[1:]...), &counter{}
		c.Stdout = out
		if err := c.Run(); err != nil {
			return err
		}
		return out.want()
	}}
}

// poured is a program of this machine that brings the gigabyte through a pipe.
func poured(name string, args ...string) alternative {
	return alternative{name: name, run: func(ctx context.Context) error {
		c, out := exec.CommandContext(ctx, args[0], args[1:]...), &counter{}
		c.Stdout, c.Stderr = out, io.Discard
		if err := c.Run(); err != nil {
			return err
		}
		return out.want()
	}}
}
