//go:build linux

package confine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inside uses unix sockets among commands in every way that there is. Its argument is the
// writable directory, which is the working directory too.
func inside(args []string) error {
	dir := args[0]
	deep := filepath.Join(dir, strings.Repeat(strings.Repeat("d", 100)+"/", 3))
	if err := os.MkdirAll(deep, 0o755); err != nil {
		return err
	}
	deepFD, err := unix.Open(deep, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := os.Symlink("link-target", filepath.Join(dir, "link")); err != nil {
		return err
	}
	byFD := "/proc/self/fd/" + strconv.Itoa(deepFD)
	for _, c := range []struct{ what, bind, connect, chdir string }{
		{what: "absolute", bind: dir + "/a", connect: dir + "/a"},
		{what: "relative", bind: "b", connect: "b"},
		{what: "relative, bound absolute", bind: dir + "/c", connect: "./c"},
		{what: "108 bytes", bind: long(dir), connect: long(dir)},
		{what: "symlink", bind: "link-target", connect: dir + "/link"},
		{what: "deep, by descriptor", bind: byFD + "/s", connect: byFD + "/s"},
		{what: "deep, by working directory", bind: byFD + "/t", connect: "t", chdir: deep},
		{what: "by the own /proc", bind: dir + "/e", connect: "/proc/thread-self/cwd/e"},
		{what: "by /dev/fd", bind: byFD + "/u", connect: "/dev/fd/" + strconv.Itoa(deepFD) + "/u"},
		{what: "abstract", bind: "@" + dir, connect: "@" + dir},
		{what: "abstract with NULs", bind: "@" + dir + `\0x\0\0`, connect: "@" + dir + `\0x\0\0`},
	} {
		for kind, suffix := range map[int]string{unix.SOCK_STREAM: "", unix.SOCK_SEQPACKET: " packets"} {
			err := func() error {
				l, err := listen(kind, c.bind, 5)
				if err != nil {
					return fmt.Errorf("listen: %w", err)
				}
				defer unix.Close(l)
				defer os.Remove(c.bind)
				if c.chdir != "" {
					if err := os.Chdir(c.chdir); err != nil {
						return err
					}
					defer os.Chdir(dir)
				}
				return converse(l, kind, c.connect)
			}()
			if err != nil {
				fmt.Printf("%s%s: %v\n", c.what, suffix, err)
			}
		}
	}
	return nil
}

// TestInside defends: among commands unix sockets work as ever, by every kind of name, and
// a listener sees the connections that were made and no others.
func TestInside(t *testing.T) {
	for what, p := range places(t) {
		t.Run(what, func(t *testing.T) {
			dir := openDir(t)
			if out := p.run(t, dir, "inside", dir); out != "" {
				t.Error(out)
			}
		})
	}
}
