//go:build linux

package limit

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/cgroup"
)

// ErrUsage marks a command line that makes no sense.
var ErrUsage = errors.New("usage: berth-guest join --group DIR... [--as NAME] [--mover PATH] [--hold-fd N] -- PATH [ARG]")

// Join puts this process into control groups and becomes a program, which so is in them
// from its first instruction. NAME is what the program is called in the list of
// processes.
func Join(args []string) error {
	var groups stringList
	var as, mover string
	f := flag.NewFlagSet("join", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Var(&groups, "group", "directory of a control group; repeatable")
	f.StringVar(&as, "as", "", "name of the program in the list of processes")
	f.StringVar(&mover, "mover", "", "program that moves this process where its user may not")
	hold := f.Int("hold-fd", 0, "descriptor that keeps the group until this process is in it")
	if err := f.Parse(args); err != nil {
		return fmt.Errorf("%w: join: %w", ErrUsage, err)
	}
	argv := f.Args()
	if len(argv) == 0 || !filepath.IsAbs(argv[0]) {
		return fmt.Errorf("%w: join: the path of a program is needed", ErrUsage)
	}
	if *hold > 0 {
		unix.CloseOnExec(*hold)
	}
	for _, dir := range groups {
		if err := cgroup.Join(dir, mover); err != nil {
			return fmt.Errorf("join: %w", err)
		}
	}
	path := argv[0]
	if as != "" {
		argv = append([]string{as}, argv[1:]...)
	}
	return fmt.Errorf("join: %s: %w", path, unix.Exec(path, argv, os.Environ()))
}

// stringList is a flag that is given more than once.
type stringList []string

func (l *stringList) String() string { return strings.Join(*l, " ") }

// Set implements flag.Value.
func (l *stringList) Set(s string) error {
	*l = append(*l, s)
	return nil
}
