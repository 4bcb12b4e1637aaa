//go:build !linux

package direct

import (
	"context"
	"net"
	"path/filepath"
	"time"
)

// Containers are on Linux: elsewhere than there they run in another machine.

func (d *Dirs) base() string { return filepath.Clean(d.State) }

func (d *Dirs) locate(context.Context) error { return errNone }

// Make returns "": there can be no directory.
func (d *Dirs) Make(context.Context) string { return "" }

// Lacks is never certain.
func (d *Dirs) Lacks(context.Context, string) bool { return false }

// Ensure has nothing to make.
func (d *Dirs) Ensure(string) error { return nil }

// Remove has nothing to remove.
func (d *Dirs) Remove(string) {}

func (d *Dirs) old(time.Duration) map[string]bool { return nil }

func (d *Dirs) alive(string) bool { return false }

func (d *Dirs) dial(context.Context, string, int, bool) (net.Conn, error) { return nil, errNone }
