package guestbin

import (
	"context"
	"fmt"

	"github.com/berth-dev/berth/spec"
)

// Bin is a guest binary on this machine.
type Bin struct {
	Path string
	Hash string // hex SHA-256 of the file
	Size int64
	// Args go before the guest's own arguments; empty but where the binary is
	// the running program.
	Args []string
}

// waysHint says what gets a guest binary to where none was found.
const waysHint = "for places of this machine call selfexec.Main (package guest/selfexec) at the top of main; for others install the Go toolchain, or give the path of a berth-guest binary, or, in a checkout of Berth, build with -tags berth_embed after `go generate ./guest`"

// Nowhere is the answer when no way leads to a binary.
func Nowhere(err error) error {
	return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("no guest binary: %w", err), Hint: waysHint}
}

// ctxFirst returns the context's error if it has ended, else err.
func ctxFirst(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
