package files

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/berth-dev/berth/spec"
)

// DefaultReadLimit is the most that ReadFile holds in memory: 4 MiB.
const DefaultReadLimit = 4 << 20

// ReadFile reads the whole of a regular file of at most maxBytes; 0 means
// DefaultReadLimit. A larger file is CodeTooLarge, never cut.
func ReadFile(ctx context.Context, fsys FS, name string, maxBytes int64) ([]byte, error) {
	if maxBytes <= 0 {
		maxBytes = DefaultReadLimit
	}
	return readAll(ctx, fsys, name, OpenOptions{MaxBytes: maxBytes})
}

// readAll reads what o, which has a limit or a length, says of a file.
func readAll(ctx context.Context, fsys FS, name string, o OpenOptions) ([]byte, error) {
	f, err := fsys.Open(ctx, name, o)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	limit := o.MaxBytes
	if o.Length > 0 && (limit == 0 || o.Length < limit) {
		limit = o.Length
	}
	var buf bytes.Buffer
	if size := f.Info().Size - o.Offset; size > 0 {
		// What a place says of a large size costs memory as its bytes come.
		buf.Grow(int(min(size, limit, DefaultReadLimit)) + bytes.MinRead)
	}
	// Open holds the size, and the File never gives more than it; the limit
	// here is for a driver that breaks that promise.
	if _, err := io.Copy(&buf, io.LimitReader(f, limit)); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// WriteFile writes data as the whole of name, atomically.
func WriteFile(ctx context.Context, fsys FS, name string, data []byte, o WriteOptions) error {
	return fsys.Write(ctx, name, bytes.NewReader(data), int64(len(data)), o)
}

// The most that is collected of a directory, unless a caller says how many entries.
const (
	maxEntries    = 100_000
	maxEntryBytes = 32 << 20 // of names and targets
)

// ReadDir collects at most limit entries of a directory; 0 means 100,000. More
// of them, or more than 32 MiB of names and targets, end it with what was read and
// CodeTooLarge.
func ReadDir(ctx context.Context, fsys FS, dir string, limit int) ([]Info, error) {
	if limit <= 0 {
		limit = maxEntries
	}
	var out []Info
	size := 0
	for info, err := range fsys.List(ctx, dir) {
		if err != nil {
			return out, err
		}
		size += len(info.Name) + len(info.Target)
		if len(out) == limit || size > maxEntryBytes {
			return out, tooMany(dir, len(out))
		}
		out = append(out, info)
	}
	return out, nil
}

func tooMany(dir string, limit int) error {
	return &spec.Error{Path: dir, Code: spec.CodeTooLarge, Err: fmt.Errorf("more than %d entries", limit)}
}
