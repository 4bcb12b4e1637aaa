package wire

import (
	"io"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// OpWatch tells of changes to files. Since 1.3.
const OpWatch Op = "watch" // reply once it watches; then changes in data frames and, instead of an end, why it ends

// WatchRequest is what is watched, and files.WatchOptions on the wire.
type WatchRequest struct {
	Name      Bytes   `json:"name"`
	Recursive bool    `json:"recursive,omitempty"`
	Exclude   []Bytes `json:"exclude,omitempty"`
	Gitignore bool    `json:"gitignore,omitempty"`
}

// FromWatch converts for sending.
func FromWatch(name string, o files.WatchOptions) WatchRequest {
	r := WatchRequest{Name: Bytes(name), Recursive: o.Recursive, Gitignore: o.Gitignore}
	for _, e := range o.Exclude {
		r.Exclude = append(r.Exclude, Bytes(e))
	}
	return r
}

// Options converts what a host asked for.
func (r *WatchRequest) Options() files.WatchOptions {
	o := files.WatchOptions{Recursive: r.Recursive, Gitignore: r.Gitignore}
	for _, e := range r.Exclude {
		o.Exclude = append(o.Exclude, string(e))
	}
	return o
}

// watchKinds are the kinds of changes by their numbers on the wire, from 1.
var watchKinds = [...]files.WatchKind{
	files.WatchCreated, files.WatchWritten, files.WatchMode, files.WatchRemoved, files.WatchRenamed, files.WatchOverflow,
}

// The flags of a change, beside its kind.
const (
	watchKind = 0x0f
	watchDir  = 0x10
	watchSelf = 0x20 // it is about what is watched itself: no path follows
)

// AppendChange appends the record of e, which follows one of the path prev, and returns
// what the next one follows.
//
//	change   kind|flags [path [old path]]
func AppendChange(buf []byte, prev string, e *files.WatchEvent) (record []byte, next string) {
	flags := byte(0)
	for i, kind := range watchKinds {
		if kind == e.Kind {
			flags = byte(i + 1)
		}
	}
	if e.Dir {
		flags |= watchDir
	}
	if e.Path == "." {
		return append(buf, flags|watchSelf), prev
	}
	buf = appendPath(append(buf, flags), prev, e.Path)
	if e.Kind == files.WatchRenamed {
		buf = appendString(buf, e.OldPath)
	}
	return buf, e.Path
}

// ChangeReader reads the changes that a guest tells of.
type ChangeReader struct{ records }

// NewChangeReader returns a reader of the records in r.
func NewChangeReader(r io.Reader) *ChangeReader { return &ChangeReader{newRecords(r)} }

// Next returns the next change.
func (r *ChangeReader) Next() (files.WatchEvent, error) {
	flags, err := r.r.ReadByte()
	if err != nil {
		return files.WatchEvent{}, err
	}
	kind, self := int(flags&watchKind), flags&watchSelf != 0
	if kind < 1 || kind > len(watchKinds) || flags&^(watchKind|watchDir|watchSelf) != 0 {
		return files.WatchEvent{}, violation("flags %#x of a change", flags)
	}
	e := files.WatchEvent{Kind: watchKinds[kind-1], Path: ".", Dir: flags&watchDir != 0}
	if self && e.Kind == files.WatchRenamed || !self && e.Kind == files.WatchOverflow {
		return files.WatchEvent{}, violation("a change of kind %s, about what is watched itself: %v", e.Kind, self)
	}
	if self {
		return e, nil
	}
	if e.Path, err = r.next(); err != nil || e.Kind != files.WatchRenamed {
		return e, err
	}
	old, err := r.take(nil, spec.MaxPathBytes)
	if err == nil && !below(old) {
		err = violation("path %.64q", old)
	}
	e.OldPath = string(old)
	return e, err
}
