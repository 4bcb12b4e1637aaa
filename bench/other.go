//go:build !linux

package main

import (
	"context"
	"errors"
	"io"
)

func backendNames() []string { return nil }

// eachBackend needs what only Linux has: bubblewrap, a private dockerd, /proc.
func eachBackend(context.Context, string, io.Writer, func([]row) error) error {
	return errors.New("measuring needs linux")
}
