//go:build linux

package fileserver

import (
	"iter"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// changed says what a change has done. Names are as the host gave them.
func changed(op wire.Op, r *wire.FileRequest) wire.PlaceEvent {
	e := wire.PlaceEvent{Kind: string(spec.EventFileWritten), Path: r.Name}
	switch op {
	case wire.OpRemove:
		e.Kind = string(spec.EventFileRemoved)
	case wire.OpRename:
		e.Kind, e.Path, e.OldPath = string(spec.EventFileMoved), r.NewName, r.Name
	case wire.OpCopy:
		e.Path = r.NewName
	}
	return e
}

// batchTold is how many files of a batch have an event each.
const batchTold = 1000

// batchNames are the names of the first files of a batch.
type batchNames []string

// note passes the files of a batch on.
func (b *batchNames) note(next iter.Seq2[files.BatchFile, error]) iter.Seq2[files.BatchFile, error] {
	return func(yield func(files.BatchFile, error) bool) {
		for f, err := range next {
			if err == nil && len(*b) < batchTold {
				*b = append(*b, f.Name)
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

// tell tells of the files that have landed: of each, and of how many there are beyond those.
func (b batchNames) tell(landed int, tell func(wire.PlaceEvent)) {
	for _, name := range b[:min(landed, len(b))] {
		tell(wire.PlaceEvent{Kind: string(spec.EventFileWritten), Path: wire.Bytes(name)})
	}
	if rest := landed - len(b); rest > 0 {
		tell(wire.PlaceEvent{Kind: string(spec.EventFileWritten), Count: int64(rest)})
	}
}
