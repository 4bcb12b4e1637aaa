package view

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"path"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// Mounted returns an FS that speaks the names of v over fsys. It takes every spelling
// that v understands and answers, in errors too, with mounted names. It has the
// optional interfaces and does what fsys can. A mount that is read-only refuses
// changes with CodeNotWritable; that a mount itself is removed or renamed is
// CodeNotReplaceable.
func Mounted(v View, fsys files.FS) (files.FS, error) {
	if err := v.Validate(); err != nil {
		return nil, err
	}
	return &mounted{v, fsys}, nil
}

type mounted struct {
	view View
	fsys files.FS
}

var (
	_ files.Chmodder    = (*mounted)(nil)
	_ files.Copier      = (*mounted)(nil)
	_ files.Globber     = (*mounted)(nil)
	_ files.Grepper     = (*mounted)(nil)
	_ files.BatchWriter = (*mounted)(nil)
	_ files.Namer       = (*mounted)(nil)
	_ files.Resolver    = (*mounted)(nil)
)

// changed locates a name whose file is to be changed.
func (m *mounted) changed(name string) (Located, error) {
	l, err := m.view.Locate(name)
	if err == nil && l.Mount.ReadOnly {
		err = &spec.Error{Path: l.Name, Code: spec.CodeNotWritable, Err: errors.New("a read-only mount")}
	}
	return l, err
}

// moved locates a name that is to lead elsewhere.
func (m *mounted) moved(name string) (Located, error) {
	l, err := m.changed(name)
	if err == nil && l.Root() {
		err = &spec.Error{Path: l.Name, Code: spec.CodeNotReplaceable, Err: errors.New("a mount")}
	}
	return l, err
}

// told makes an error about a name beneath one about the mounted name.
func (m *mounted) told(err error, l Located) error {
	var e *spec.Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Path = l.Name
	if at := path.Clean(e.Path); path.IsAbs(at) {
		if mount, ok := m.view.find(at, mountSource); ok {
			c.Path = join(mount.Name, strings.Trim(strings.TrimPrefix(at, mount.Source), "/"))
		}
	}
	return &c
}

// info gives the mount's own name to what describes it.
func (l Located) info(i files.Info) files.Info {
	if l.Root() {
		i.Name = path.Base(l.Mount.Name)
	}
	return i
}

// Open implements files.FS.
func (m *mounted) Open(ctx context.Context, name string, o files.OpenOptions) (files.File, error) {
	l, err := m.view.Locate(name)
	if err != nil {
		return nil, err
	}
	f, err := m.fsys.Open(ctx, l.Source, o)
	if err != nil {
		return nil, m.told(err, l)
	}
	return &mountedFile{f, m, l}, nil
}

type mountedFile struct {
	files.File
	m *mounted
	l Located
}

func (f *mountedFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	return n, f.m.told(err, f.l)
}

// Write implements files.FS.
func (m *mounted) Write(ctx context.Context, name string, src io.Reader, size int64, o files.WriteOptions) error {
	l, err := m.changed(name)
	if err != nil {
		return err
	}
	return m.told(m.fsys.Write(ctx, l.Source, src, size, o), l)
}

// Stat implements files.FS.
func (m *mounted) Stat(ctx context.Context, name string, o files.StatOptions) (files.Info, error) {
	l, err := m.view.Locate(name)
	if err != nil {
		return files.Info{}, err
	}
	info, err := m.fsys.Stat(ctx, l.Source, o)
	return l.info(info), m.told(err, l)
}

// List implements files.FS.
func (m *mounted) List(ctx context.Context, dir string) iter.Seq2[files.Info, error] {
	return seqBelow(m, dir, func(source string) iter.Seq2[files.Info, error] { return m.fsys.List(ctx, source) })
}

// Names implements files.Namer.
func (m *mounted) Names(ctx context.Context, dir string, o files.NamesOptions) iter.Seq2[files.Info, error] {
	return seqBelow(m, dir, func(source string) iter.Seq2[files.Info, error] { return files.Names(ctx, m.fsys, source, o) })
}

// Glob implements files.Globber.
func (m *mounted) Glob(ctx context.Context, o files.GlobOptions) iter.Seq2[files.Match, error] {
	return seqBelow(m, o.Dir, func(source string) iter.Seq2[files.Match, error] {
		o.Dir = source
		return files.Glob(ctx, m.fsys, o)
	})
}

// Grep implements files.Grepper.
func (m *mounted) Grep(ctx context.Context, o files.GrepOptions) iter.Seq2[files.Line, error] {
	return seqBelow(m, o.Files.Dir, func(source string) iter.Seq2[files.Line, error] {
		o.Files.Dir = source
		return files.Grep(ctx, m.fsys, o)
	})
}

// seqBelow yields what a sequence says about a directory and what is in it.
func seqBelow[T any](m *mounted, dir string, seq func(source string) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if dir == "" {
			dir = "."
		}
		l, err := m.view.Locate(dir)
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		for v, err := range seq(l.Source) {
			if !yield(v, m.told(err, l)) {
				return
			}
		}
	}
}

// Mkdir implements files.FS.
func (m *mounted) Mkdir(ctx context.Context, name string, o files.MkdirOptions) error {
	l, err := m.changed(name)
	if err != nil {
		return err
	}
	return m.told(m.fsys.Mkdir(ctx, l.Source, o), l)
}

// Remove implements files.FS.
func (m *mounted) Remove(ctx context.Context, name string, o files.RemoveOptions) error {
	l, err := m.moved(name)
	if err != nil {
		return err
	}
	return m.told(m.fsys.Remove(ctx, l.Source, o), l)
}

// Chmod implements files.Chmodder.
func (m *mounted) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	l, err := m.changed(name)
	if err != nil {
		return err
	}
	return m.told(files.Chmod(ctx, m.fsys, l.Source, mode), l)
}

// Rename implements files.FS.
func (m *mounted) Rename(ctx context.Context, oldname, newname string, o files.RenameOptions) error {
	from, err := m.moved(oldname)
	if err != nil {
		return err
	}
	to, err := m.moved(newname)
	if err != nil {
		return err
	}
	return m.told(m.fsys.Rename(ctx, from.Source, to.Source, o), from)
}

// Copy implements files.Copier.
func (m *mounted) Copy(ctx context.Context, oldname, newname string, o files.CopyOptions) error {
	from, err := m.view.Locate(oldname)
	if err != nil {
		return err
	}
	to, err := m.changed(newname)
	if err != nil {
		return err
	}
	return m.told(files.Copy(ctx, m.fsys, from.Source, to.Source, o), from)
}

// WriteBatch implements files.BatchWriter.
func (m *mounted) WriteBatch(ctx context.Context, next iter.Seq2[files.BatchFile, error], o files.BatchOptions) (int, error) {
	var last Located
	n, err := files.WriteBatch(ctx, m.fsys, func(yield func(files.BatchFile, error) bool) {
		for file, err := range next {
			if err == nil {
				last, err = m.changed(file.Name)
				file.Name = last.Source
			}
			if !yield(file, err) || err != nil {
				return
			}
		}
	}, o)
	return n, m.told(err, last)
}

// Resolve implements files.Resolver. A name that leads out of the mounts is CodeInvalidPath.
func (m *mounted) Resolve(ctx context.Context, name string) (string, error) {
	l, err := m.view.Locate(name)
	if err != nil {
		return "", err
	}
	abs, err := files.Resolve(ctx, m.fsys, l.Source)
	if err != nil {
		return "", m.told(err, l)
	}
	best, found := "", ""
	for _, mount := range m.view.Mounts {
		source, err := files.Resolve(ctx, m.fsys, mount.Source)
		if err == nil && within(abs, source) && len(source) > len(best) {
			best, found = source, path.Join(mount.Name, abs[len(source):])
		}
	}
	if best == "" {
		return "", &spec.Error{Path: l.Name, Code: spec.CodeInvalidPath, Err: errors.New("it leads out of the mounts")}
	}
	return found, nil
}
