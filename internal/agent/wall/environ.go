//go:build linux

package wall

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxEnvironBytes bounds what is read as an environment.
const maxEnvironBytes = 64 << 20

// Environ is the environment of the place: the one that Enter has read, else this
// program's own.
func (c *Config) Environ() []string {
	if c.environFD < 0 {
		return os.Environ()
	}
	return c.environ
}

// readEnviron reads the environment that this program was handed, since it is not started
// with that of commands: a variable can make a program load a library which lies where
// commands write. The descriptor stays as it is, for a program that begins again.
func (c *Config) readEnviron() error {
	if c.environFD < 0 {
		return nil
	}
	var st unix.Stat_t
	err := unix.Fstat(c.environFD, &st)
	if err == nil && st.Size > maxEnvironBytes {
		err = unix.EFBIG
	}
	if err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	data := make([]byte, st.Size)
	for at := 0; at < len(data); {
		n, err := unix.Pread(c.environFD, data[at:], int64(at))
		if err == nil && n <= 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("environment: %w", err)
		}
		at += max(n, 0)
	}
	if len(data) > 0 && data[len(data)-1] != 0 {
		return errors.New("environment: it is cut off")
	}
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(data), "\x00"), "\x00") {
		c.environ = append(c.environ, entry)
	}
	// The wrapper says where it starts the program; a command is told where that is.
	if pwd, ok := os.LookupEnv("PWD"); ok {
		c.environ = append(c.environ, "PWD="+pwd)
	}
	return nil
}
