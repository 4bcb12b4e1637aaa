//go:build unix || windows

package filelock

import (
	"context"
	"os"
	"time"
)

// Lock takes the lock that path stands for, among all processes and within this one,
// and returns how to let it go. The file stays: to remove it would let two hold it. The
// end of ctx ends the waiting.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		held, err := try(f)
		if held {
			return func() { f.Close() }, nil
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		}
	}
}
