package repo

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-dev/berth/spec"
)

const (
	// meterPause is how long is waited between two looks, and meterShare how many times
	// as long as a look took.
	meterPause = 50 * time.Millisecond
	meterShare = 4
	// entryBytes is what an entry counts beside its content, as in an archive.
	entryBytes = 512
)

// meter watches how much lands in a directory, and ends the returned context when that is
// more than most. stop looks a last time and returns whether it was too much.
func meter(ctx context.Context, dir string, most int64, progress func(spec.Progress)) (metered context.Context, stop func() error) {
	metered, cancel := context.WithCancelCause(ctx)
	over := &spec.Error{Code: spec.CodeTooLarge, Err: fmt.Errorf("the clone is larger than %d bytes", most), Hint: "a depth leaves out history"}
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for pause := meterPause; ; {
			select {
			case <-done:
				return
			case <-time.After(pause):
			}
			start := time.Now()
			bytes := landed(dir, most)
			if bytes > most {
				cancel(over)
				return
			}
			if progress != nil {
				progress(spec.Progress{Step: "clone", Message: "cloning", Done: bytes})
			}
			pause = max(meterPause, meterShare*time.Since(start))
		}
	}()
	return metered, func() error {
		close(done)
		<-gone
		caught := context.Cause(metered) == error(over)
		cancel(nil)
		if caught || landed(dir, most) > most {
			return over
		}
		return nil
	}
}

// landed is how many bytes lie in a directory that others write; it stops counting once
// that is more than most.
func landed(dir string, most int64) int64 {
	var total int64
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it was there a moment ago
		}
		total += entryBytes
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		if total > most {
			return filepath.SkipAll
		}
		return nil
	})
	return total
}
