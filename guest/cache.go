package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/berth-dev/berth/spec"
)

// cache is a directory of guest binaries. Each entry is a directory of its own,
// named by platform and identity, with the binary and a record of its size and hash
// in it; it comes into being by one rename.
type cache struct{ dir string }

const (
	binaryName = "berth-guest"
	recordName = "record.json"
)

// record says what an entry's binary must be.
type record struct {
	Size   int64  `json:"size_bytes"`
	SHA256 string `json:"sha256"`
}

func openCache(dir string) (*cache, error) {
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil, nowhere(fmt.Errorf("no cache directory: %w", err))
		}
		dir = filepath.Join(base, "berth")
	}
	dir, err := filepath.Abs(filepath.Join(dir, "guest"))
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, nowhere(fmt.Errorf("the cache directory: %w", err))
	}
	return &cache{dir}, nil
}

// get returns the entry of that name if it is there and whole.
func (c *cache) get(name string) (Bin, bool) {
	dir := filepath.Join(c.dir, name)
	data, err := os.ReadFile(filepath.Join(dir, recordName))
	if err != nil {
		return Bin{}, false
	}
	var want record
	if json.Unmarshal(data, &want) != nil {
		return Bin{}, false
	}
	bin, err := inspect(filepath.Join(dir, binaryName))
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
func (c *cache) make(ctx context.Context, name string, fill func(path string) error) (Bin, error) {
	if bin, ok := c.get(name); ok {
		return bin, nil
	}
	unlock, err := lock(ctx, filepath.Join(c.dir, name+".lock"))
	if err != nil {
		return Bin{}, ctxFirst(ctx, nowhere(err))
	}
	defer unlock()
	if bin, ok := c.get(name); ok { // another one was quicker
		return bin, nil
	}
	temp, err := os.MkdirTemp(c.dir, ".new-")
	if err != nil {
		return Bin{}, nowhere(err)
	}
	defer os.RemoveAll(temp)
	path := filepath.Join(temp, binaryName)
	if err := fill(path); err != nil {
		return Bin{}, err
	}
	if err := c.place(temp, name); err != nil {
		return Bin{}, nowhere(err)
	}
	c.prune()
	bin, ok := c.get(name)
	if !ok {
		return Bin{}, nowhere(fmt.Errorf("the cache in %s does not keep what is written to it", c.dir))
	}
	return bin, nil
}

// place records what is in temp and makes it the entry.
func (c *cache) place(temp, name string) error {
	path := filepath.Join(temp, binaryName)
	if err := os.Chmod(path, 0o755); err != nil {
		return err
	}
	bin, err := inspect(path)
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
func (c *cache) prune() {
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

// unpack puts an embedded binary into the cache.
func (c *cache) unpack(ctx context.Context, platform string, data []byte) (Bin, error) {
	sum := sha256.Sum256(data)
	name := platform + "-" + hex.EncodeToString(sum[:8])
	return c.make(ctx, name, func(path string) error {
		if err := os.WriteFile(path, data, 0o755); err != nil {
			return nowhere(err)
		}
		return nil
	})
}

// hashes remembers the hash of a file for as long as the file's identity, size and
// time stay what they were. It is a memory of pure facts, so that a place made every
// second does not read five megabytes each time; nothing depends on its content.
var hashes sync.Map // fileIdentity -> string

type fileIdentity struct {
	path  string
	size  int64
	mtime time.Time
}

// inspect describes a binary.
func inspect(path string) (Bin, error) {
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

// tail is the last part of a program's output, for a message.
type tail struct{ bytes.Buffer }

// maxTail is how much of a failed build is quoted.
const maxTail = 700

func (t *tail) String() string {
	b := bytes.TrimSpace(t.Bytes())
	if len(b) > maxTail {
		b = append([]byte("..."), b[len(b)-maxTail:]...)
	}
	return string(b)
}

// invalidSource is the answer to a source tree that does not build.
func buildFailed(err error, output string) error {
	text := err.Error()
	if output != "" {
		text += ": " + output
	}
	return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the guest binary was not built: %s", text), Hint: waysHint}
}
