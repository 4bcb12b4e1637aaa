//go:build linux

package idmap

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/drop"
)

// ErrUnable says that this kernel, or the file system of a path, cannot do it, or that
// this user may not: there is nothing wrong with what was asked for.
var ErrUnable = errors.New("no idmapped mount")

// ErrUsage marks arguments that make no sense.
var ErrUsage = errors.New("want mount --map UID:GID --path PATH... -- PROGRAM [ARG]")

// Verb is the one that Main carries out.
const Verb = "mount"

// Main carries out the verb with its arguments. self are the arguments that make this
// program a guest before a verb. Unless it was asked to probe, it returns only with an
// error; nothing is left mounted where it came from.
func Main(args, self []string) error {
	var id *drop.Identity
	var paths []string
	f := flag.NewFlagSet(Verb, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Func("map", "whose root's files are to look", func(text string) (err error) {
		id, err = drop.Parse(text)
		return err
	})
	f.Func("path", "file or directory without a symbolic link in its name", func(path string) error {
		if !filepath.IsAbs(path) {
			return errors.New("not an absolute path")
		}
		paths = append(paths, path)
		return nil
	})
	probe := f.Bool("probe", false, "only try")
	hold := f.Bool("hold", false, "wait for the end of stdin: for the verb's own use")
	if err := f.Parse(args); err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	switch {
	case *hold:
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	case id == nil || len(paths) == 0 || *probe != (f.NArg() == 0):
		return ErrUsage
	}
	program := f.Args()
	if *probe {
		return mapped(*id, self, paths, func([]tree) error { return nil })
	}
	runtime.LockOSThread() // a mount namespace is a thread's, and exec keeps the caller's
	defer runtime.UnlockOSThread()
	if err := isolate(); err != nil {
		return err
	}
	if err := mapped(*id, self, paths, attach); err != nil {
		return err
	}
	err := syscall.Exec(program[0], append([]string{os.Args[0]}, program[1:]...), os.Environ())
	return fmt.Errorf("execute %s: %w", program[0], err)
}

// isolate gives the calling thread a mount namespace from and to which no mount spreads.
func isolate() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return unable("a mount namespace", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return unable("private mounts", err)
	}
	return nil
}

// unable says what the kernel has refused, and marks it where it is the kernel's limit.
func unable(what string, err error) error {
	for _, limit := range []error{unix.EPERM, unix.EACCES, unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.ENOSPC, unix.EUSERS} {
		if errors.Is(err, limit) {
			return fmt.Errorf("%w: %s: %w", ErrUnable, what, err)
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}
