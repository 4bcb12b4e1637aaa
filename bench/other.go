//go:build !linux

package main

import (
	"context"
	"errors"
	"io"

	"github.com/berth-dev/berth"
)

func backendNames() []string { return nil }

// eachBackend needs what only Linux has: bubblewrap, a private dockerd, /proc.
func eachBackend(context.Context, string, io.Writer, func(*berth.Sandbox, []row) error) error {
	return errors.New("measuring needs linux")
}

// printWalls needs what only Linux has.
func printWalls(context.Context, string, io.Writer, io.Writer) error {
	return errors.New("probing walls needs linux")
}
