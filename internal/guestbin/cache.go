package guestbin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/filelock"
	"github.com/berth-dev/berth/spec"
)

// Cache is a directory of guest binaries. Each entry is a directory of its own,
// named by platform and identity, with the binary and a record of its size and hash
// in it; it comes into being by one rename.
type Cache struct{ dir string }

const (
	binaryName = "berth-guest"
	recordName = "record.json"
)

// record says what an entry's binary must be.
type record struct {
	Size   int64  `json:"size_bytes"`
	SHA256 string `json:"sha256"`
}

// OpenCache returns the cache below dir, which it makes; "": berth in the user's cache
// directory.
func OpenCache(dir string) (*Cache, error) {
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil, Nowhere(fmt.Errorf("no cache directory: %w", err))
		}
		dir = filepath.Join(base, "berth")
	}
	dir, err := filepath.Abs(filepath.Join(dir, "guest"))
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, &spec.Error{
			Code: spec.CodeUnavailable, Err: fmt.Errorf("no guest binary: the cache directory: %w", err),
			Hint: "name a cache directory that can be written: BERTH_CACHE_DIR for the berth command, BinaryOptions.CacheDir in a program",
		}
	}
	return &Cache{dir}, nil
}

// get returns the entry of that name if it is there and whole.
func (c *Cache) get(name string) (Bin, bool) {
	dir := filepath.Join(c.dir, name)
	data, err := os.ReadFile(filepath.Join(dir, recordName))
	if err != nil {
		return Bin{}, false
	}
	var want record
	if json.Unmarshal(data, &want) != nil {
		return Bin{}, false
	}
	bin, err := Inspect(filepath.Join(dir, binaryName))
	if err != nil || bin.Size != want.Size || bin.Hash != want.SHA256 {
		return Bin{}, false
	}
	now := time.Now()
	_ = os.Chtimes(dir, now, now) // it is in use: prune leaves it
	return bin, true
}

// make returns the entry of that name, made by fill if it is not there or not whole.
// fill writes the binary to the path that it is given. Makers of one entry, in all
// processes, take turns.
func (c *Cache) make(ctx context.Context, name string, fill func(path string) error) (Bin, error) {
	if bin, ok := c.get(name); ok {
		return bin, nil
	}
	unlock, err := filelock.Lock(ctx, filepath.Join(c.dir, name+".lock"))
	if err != nil {
		return Bin{}, ctxFirst(ctx, Nowhere(err))
	}
	defer unlock()
	if bin, ok := c.get(name); ok { // another one was quicker
		return bin, nil
	}
	temp, err := os.MkdirTemp(c.dir, ".new-")
	if err != nil {
		return Bin{}, Nowhere(err)
	}
	defer os.RemoveAll(temp)
	path := filepath.Join(temp, binaryName)
	if err := fill(path); err != nil {
		return Bin{}, err
	}
	if err := c.place(temp, name); err != nil {
		return Bin{}, Nowhere(err)
	}
	c.prune()
	bin, ok := c.get(name)
	if !ok {
		return Bin{}, Nowhere(fmt.Errorf("the cache in %s does not keep what is written to it", c.dir))
	}
	return bin, nil
}

// place records what is in temp and makes it the entry.
func (c *Cache) place(temp, name string) error {
	path := filepath.Join(temp, binaryName)
	if err := os.Chmod(path, 0o755); err != nil {
		return err
	}
	bin, err := Inspect(path)
	if err != nil {
		return err
	}
	data, err := json.Marshal(record{bin.Size, bin.Hash})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(temp, recordName), data, 0o644); err != nil {
		return err
	}
	if err := os.Chmod(temp, 0o755); err != nil { // another user's process may run it
		return err
	}
	entry := filepath.Join(c.dir, name)
	if err := os.RemoveAll(entry); err != nil { // one that is not whole
		return err
	}
	return os.Rename(temp, entry)
}

// keepUnused is how long an entry that nobody asks for is kept.
const keepUnused = 14 * 24 * time.Hour

// prune removes entries, and leftovers of builds that died, that are not in use.
func (c *Cache) prune() {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && e.IsDir() && time.Since(info.ModTime()) > keepUnused {
			os.RemoveAll(filepath.Join(c.dir, e.Name()))
		}
	}
}

// Unpack puts a binary that is part of this program into the cache.
func (c *Cache) Unpack(ctx context.Context, platform string, data []byte) (Bin, error) {
	sum := sha256.Sum256(data)
	name := platform + "-" + hex.EncodeToString(sum[:8])
	return c.make(ctx, name, func(path string) error {
		if err := os.WriteFile(path, data, 0o755); err != nil {
			return Nowhere(err)
		}
		return nil
	})
}

var errNotRegular = errors.New("not a regular file")

// hashes remembers the hash of a file for as long as the file's identity, size and
// time stay what they were. It is a memory of pure facts, so that a place made every
// second does not read five megabytes each time; nothing depends on its content.
var hashes sync.Map // fileIdentity -> string

type fileIdentity struct {
	path  string
	size  int64
	mtime time.Time
}

// Inspect describes the binary at path, which must be a regular file. Its hash is
// computed once for as long as the file stays the same.
func Inspect(path string) (Bin, error) {
	f, err := os.Open(path)
	if err != nil {
		return Bin{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Bin{}, err
	}
	if !info.Mode().IsRegular() {
		return Bin{}, fmt.Errorf("%s: %w", path, errNotRegular)
	}
	id := fileIdentity{path, info.Size(), info.ModTime()}
	if sum, ok := hashes.Load(id); ok {
		return Bin{Path: path, Hash: sum.(string), Size: info.Size()}, nil
	}
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return Bin{}, err
	}
	sum := hex.EncodeToString(h.Sum(nil))
	if n == info.Size() {
		hashes.Store(id, sum)
	}
	return Bin{Path: path, Hash: sum, Size: n}, nil
}
