package files

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"strings"
	"time"

	"github.com/berth-dev/berth/spec"
)

// cleanupTime is what removing temporary files may take after a failed batch.
const cleanupTime = 10 * time.Second

// WriteBatch writes many files as BatchWriter says.
//
// Over an FS that is no BatchWriter each file is first written under a temporary name
// in its directory, then all are renamed in order; o.Sync is CodeUnsupported there,
// since an FS has no way to make a rename durable.
func WriteBatch(ctx context.Context, fsys FS, next iter.Seq2[BatchFile, error], o BatchOptions) (int, error) {
	if b, ok := fsys.(BatchWriter); ok {
		return b.WriteBatch(ctx, next, o)
	}
	if o.Sync {
		return 0, &spec.Error{Code: spec.CodeUnsupported, Err: errors.New("a batch cannot be made durable here")}
	}
	b := batch{ctx: ctx, fsys: fsys, temp: tempName()}
	defer b.clean()
	for file, err := range next {
		if err == nil {
			err = b.stage(file)
		}
		if err != nil {
			return 0, err
		}
	}
	for i, f := range b.files {
		if err := b.land(f); err != nil {
			return i, spec.Wrap(err, "", "", "", f.name)
		}
		b.landed = i + 1
	}
	return len(b.files), nil
}

// batch is one generic WriteBatch under way.
type batch struct {
	ctx    context.Context // of the call
	fsys   FS
	temp   string
	files  []staged
	landed int // of files
}

// staged is a file whose content has been written.
type staged struct{ name, temp string }

func tempName() string {
	var random [8]byte
	rand.Read(random[:])
	return ".berth-write-" + hex.EncodeToString(random[:])
}

// stage writes the content of file beside its name.
func (b *batch) stage(file BatchFile) error {
	if err := spec.ValidatePath(file.Name); err != nil {
		return spec.Wrap(err, "", "", "", file.Name)
	}
	mode, err := b.mode(file)
	if err != nil {
		return named(err, file.Name)
	}
	f := staged{file.Name, join(parent(file.Name), fmt.Sprintf("%s-%d", b.temp, len(b.files)))}
	err = b.fsys.Write(b.ctx, f.temp, file.Src, file.Size, WriteOptions{Mode: mode, Exclusive: true})
	if err != nil {
		return named(err, file.Name)
	}
	b.files = append(b.files, f)
	return nil
}

// mode returns the mode that file is to have. What has another type now fails when
// the file lands, after those before it.
func (b *batch) mode(file BatchFile) (fs.FileMode, error) {
	info, err := b.fsys.Stat(b.ctx, file.Name, StatOptions{})
	switch spec.CodeOf(err) {
	case "", spec.CodeFileNotFound:
		if err == nil && info.IsRegular() {
			return info.Mode.Perm(), nil
		}
		return file.Mode, ctxErr(err)
	}
	return 0, err
}

// ctxErr returns err if it is one of a context.
func ctxErr(err error) error {
	if err != nil && spec.CodeOf(err) == "" {
		return err
	}
	return nil
}

// land gives a staged file its name.
func (b *batch) land(f staged) error {
	info, err := b.fsys.Stat(b.ctx, f.name, StatOptions{Follow: true})
	switch {
	case err == nil && info.IsDir():
		return &spec.Error{Path: f.name, Code: spec.CodeIsDirectory}
	case err == nil && !info.IsRegular():
		return &spec.Error{Path: f.name, Code: spec.CodeNotReplaceable}
	case ctxErr(err) != nil:
		return err
	}
	if err := b.fsys.Rename(b.ctx, f.temp, f.name, RenameOptions{Overwrite: true}); err != nil {
		return named(err, f.name)
	}
	return nil
}

// clean removes what has not landed, also after the caller has gone.
func (b *batch) clean() {
	if b.landed == len(b.files) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), cleanupTime)
	defer cancel()
	for _, f := range b.files[b.landed:] {
		_ = b.fsys.Remove(ctx, f.temp, RemoveOptions{})
	}
}

// named makes err about name instead of a temporary one.
func named(err error, name string) error {
	if e, ok := err.(*spec.Error); ok { //nolint:errorlint // only the outermost one has the path
		c := *e
		c.Path = name
		return &c
	}
	return spec.Wrap(err, "", "", "", name)
}

// parent returns the directory that holds the last element of name.
func parent(name string) string {
	dir, _ := path.Split(strings.TrimRight(name, "/"))
	if dir == "" {
		return "."
	}
	return dir
}

func isLink(i Info) bool { return i.Mode.Type() == fs.ModeSymlink }
