package localfs

import (
	"context"
	"io/fs"
	"iter"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/internal/source"
	"github.com/berth-dev/berth/files/localfs/internal/sys"
	"github.com/berth-dev/berth/spec"
)

// MaxBatchFiles is how many files one batch may hold; more are CodeTooLarge.
const MaxBatchFiles = 1 << 20

// WriteBatch implements files.BatchWriter. It returns at once when ctx ends; a Read
// of a source that blocks is then left to itself.
func (f *FS) WriteBatch(ctx context.Context, next iter.Seq2[files.BatchFile, error], o files.BatchOptions) (int, error) {
	b := &batchWriter{fs: f, ctx: ctx, sync: o.Sync, temp: tempName() + "-", out: -1, dirs: newDirCache(f), made: make(map[string]bool)}
	defer b.dirs.close()
	err := b.stage(next)
	if err == nil && o.Sync {
		err = b.syncAll()
	}
	landed := 0
	if err == nil {
		landed, err = b.land()
	}
	if err != nil {
		b.discard(landed)
		return landed, err
	}
	if o.Sync {
		err = b.syncAll()
	}
	return landed, err
}

// batchWriter is one batch. First every file is staged: its bytes are written beside
// where it is to be. Then each is renamed into place.
type batchWriter struct {
	fs     *FS
	ctx    context.Context
	sync   bool
	temp   string // the names of all temporary files begin with it, and end with their number
	staged []stagedFile
	out    int // the descriptor of the file that is being staged, the last of staged; -1: none
	dirs   *dirCache
	made   map[string]bool // the paths of directories that were missing
	disks  map[uint64]spot // a directory on each file system that was written to
}

// stagedFile is a file whose bytes have been written.
type stagedFile struct {
	name string
	dir  spot
	base string
	mode uint32
	// fresh: nothing had its name when it was staged, so that mode is that of a
	// new file; asked is that mode in any case.
	fresh bool
	asked uint32
	ino   uint64
}

func (b *batchWriter) tempName(i int) string { return b.temp + strconv.Itoa(i) }

// stage takes in all files.
func (b *batchWriter) stage(next iter.Seq2[files.BatchFile, error]) error {
	packets, stop := source.Pack(b.ctx, next)
	defer stop()
	defer func() {
		if b.out >= 0 {
			unix.Close(b.out)
		}
	}()
	for {
		var p source.Packet
		select {
		case <-b.ctx.Done():
			return b.ctx.Err()
		case p = <-packets:
		}
		for _, part := range p.Parts {
			if err := b.take(part); err != nil {
				return fail(b.staging(part), changing, err)
			}
		}
		if p.Last {
			return p.Err
		}
		p.Free()
	}
}

// staging is the name of the file that part belongs to.
func (b *batchWriter) staging(p source.Part) string {
	if p.File != nil {
		return p.File.Name
	}
	return b.staged[len(b.staged)-1].name
}

// take writes a part of a file.
func (b *batchWriter) take(p source.Part) error {
	if p.File != nil {
		if err := b.begin(p.File); err != nil {
			return err
		}
	}
	for data := p.Data; len(data) > 0; {
		n := 0
		err := sys.Retry(func() (err error) {
			n, err = unix.Write(b.out, data)
			return err
		})
		if err != nil {
			return err
		}
		data = data[n:]
	}
	if p.End {
		return b.finish()
	}
	return nil
}

// begin makes the temporary file of f. A name that no file can have, and one that
// needs a directory where something else stands, is refused here, before any file of
// the batch is replaced.
func (b *batchWriter) begin(f *files.BatchFile) error {
	if len(b.staged) == MaxBatchFiles {
		return spec.New(spec.CodeTooLarge, "more than "+strconv.Itoa(MaxBatchFiles)+" files in a batch")
	}
	s, err := b.fs.locate(f.Name)
	if err != nil {
		return err
	}
	dir, base, slash := s.parent()
	if base == "" || slash {
		return b.noFile(f.Name)
	}
	fd, err := b.dirs.get(dir, makeNothing)
	if err == unix.ENOENT {
		if fd, err = b.dirs.get(dir, makeMissing); err == nil {
			b.made[dir.path] = true
		}
	}
	if err != nil {
		return err
	}
	entry := stagedFile{name: f.Name, dir: dir, base: base, asked: uint32(f.Mode.Perm())}
	if entry.asked == 0 {
		entry.asked = 0o644
	}
	if err := b.look(fd, &entry); err != nil {
		return err
	}
	create := entry.mode
	if !entry.fresh {
		create = 0o600 // until it has the mode of the file that it replaces
	}
	b.out, err = sys.Openat(fd, b.tempName(len(b.staged)), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, create)
	if err != nil {
		return err
	}
	b.staged = append(b.staged, entry)
	return nil
}

// look decides which mode a file is to have, by what has its name now. In a directory
// that the batch has made there is nothing, or what came so lately that landing finds
// it early enough; only a name that is too long must be known now.
func (b *batchWriter) look(dir int, entry *stagedFile) error {
	entry.fresh, entry.mode = true, entry.asked
	if b.made[entry.dir.path] && len(entry.base) <= unix.NAME_MAX {
		return nil
	}
	st, err := sys.Lstat(dir, entry.base)
	if err == unix.ENOENT {
		return nil
	}
	entry.fresh = false
	if err == nil && sys.IsType(&st, unix.S_IFREG) {
		entry.mode = st.Mode & 0o777
	}
	return err
}

// noFile says why a name that is spelled as a directory cannot be a file.
func (b *batchWriter) noFile(name string) error {
	t, err := b.fs.resolve(name, changing, makeNothing)
	if err != nil {
		return err
	}
	defer t.close()
	if _, err := t.replaceable(files.WriteOptions{}); err != nil {
		return err
	}
	return unix.EISDIR
}

// finish closes the temporary file that is complete.
func (b *batchWriter) finish() error {
	entry := &b.staged[len(b.staged)-1]
	st, err := sys.Lstat(b.out, "")
	if err == nil && st.Mode&0o7777 != entry.mode {
		err = sys.Retry(func() error { return unix.Fchmod(b.out, entry.mode) })
	}
	entry.ino = st.Ino
	if err == nil && b.sync {
		if b.disks == nil {
			b.disks = make(map[uint64]spot)
		}
		b.disks[st.Dev] = entry.dir
	}
	closed := unix.Close(b.out) // some file systems report a full disk only here
	b.out = -1
	if err == nil && closed != unix.EINTR { // Linux has closed it then
		err = closed
	}
	return err
}

// land renames the files into place and returns how many it did.
func (b *batchWriter) land() (int, error) {
	for i := range b.staged {
		if err := b.ctx.Err(); err != nil {
			return i, err
		}
		if err := b.landOne(i); err != nil {
			return i, fail(b.staged[i].name, changing, err)
		}
	}
	return len(b.staged), nil
}

func (b *batchWriter) landOne(i int) error {
	entry, temp := &b.staged[i], b.tempName(i)
	fd, err := b.dirs.get(entry.dir, makeNothing)
	if err != nil {
		return err
	}
	if entry.fresh {
		err := sys.Retry(func() error { return unix.Renameat2(fd, temp, fd, entry.base, unix.RENAME_NOREPLACE) })
		if err != unix.EEXIST && err != unix.EINVAL && err != unix.ENOSYS {
			return err
		}
	}
	whole := entry.dir
	whole.abs, whole.path = entry.name, whole.path+entry.base
	t := target{dir: fd, base: entry.base, whole: &whole}
	mode, err := t.replaceable(files.WriteOptions{Mode: fs.FileMode(entry.asked)})
	if err == nil && mode != entry.mode {
		err = b.remode(fd, temp, entry.ino, mode)
	}
	if err != nil {
		return err
	}
	return sys.Retry(func() error { return unix.Renameat(fd, temp, fd, entry.base) })
}

// remode gives a temporary file another mode, if it is still the one that was made.
func (b *batchWriter) remode(dir int, temp string, ino uint64, mode uint32) error {
	fd, err := sys.Openat(dir, temp, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	st, err := sys.Lstat(fd, "")
	if err == nil && (st.Ino != ino || !sys.IsType(&st, unix.S_IFREG)) {
		err = spec.New(spec.CodeUnavailable, "the temporary file was changed")
	}
	if err != nil {
		return err
	}
	return sys.Chmod(fd, mode)
}

// discard removes the temporary files of what has not landed.
func (b *batchWriter) discard(landed int) {
	for i := landed; i < len(b.staged); i++ {
		if fd, err := b.dirs.get(b.staged[i].dir, makeNothing); err == nil {
			_ = sys.Retry(func() error { return unix.Unlinkat(fd, b.tempName(i), 0) })
		}
	}
}

// syncAll makes durable what has been written so far.
func (b *batchWriter) syncAll() error {
	for _, dir := range b.disks {
		fd, err := dir.open(unix.O_RDONLY | unix.O_DIRECTORY)
		if err == nil {
			err = sys.Retry(func() error { return unix.Syncfs(fd) })
			unix.Close(fd)
		}
		if err != nil {
			return fail(dir.abs, changing, err)
		}
	}
	return nil
}

// maxCachedDirs is how many directories a batch holds open.
const maxCachedDirs = 128

// dirCache keeps the directories of a batch open that were used last.
type dirCache struct {
	fs   *FS
	open map[string]int
	ring [maxCachedDirs]string // keys, in the order in which they came
	next int                   // in ring: the oldest
	last string                // the key of fd
	fd   int
}

func newDirCache(f *FS) *dirCache { return &dirCache{fs: f, open: make(map[string]int), fd: -1} }

// get returns a descriptor of a directory, which stays the cache's and is good until
// the next call.
func (c *dirCache) get(dir spot, m making) (int, error) {
	if c.fd >= 0 && c.last == dir.path {
		return c.fd, nil
	}
	fd, ok := c.open[dir.path]
	if !ok {
		var err error
		if fd, err = dir.openDir(m); err != nil {
			return -1, err
		}
		if oldest := c.ring[c.next]; oldest != "" {
			unix.Close(c.open[oldest])
			delete(c.open, oldest)
		}
		c.ring[c.next] = dir.path
		c.next = (c.next + 1) % maxCachedDirs
		c.open[dir.path] = fd
	}
	c.last, c.fd = dir.path, fd
	return fd, nil
}

func (c *dirCache) close() {
	for _, fd := range c.open {
		unix.Close(fd)
	}
}
