package config

import (
	"errors"
	"io"
	"os"
)

var errNotRegular = errors.New("not a regular file")

// OS returns the sources of this process: its environment and its file system.
func OS(flags map[string][]string) Sources {
	return Sources{Flags: flags, Environ: os.Environ(), ReadFile: ReadFile}
}

// ReadFile reads a small regular file of this machine: configuration, variables.
// It neither waits for a pipe nor reads a device.
func ReadFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "read", Path: name, Err: errNotRegular}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// One byte over the cap lets the parser see that there is too much.
	return io.ReadAll(io.LimitReader(f, maxFileBytes+1))
}
