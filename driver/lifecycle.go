package driver

import (
	"context"
	"io"

	"github.com/berth-dev/berth/spec"
)

// Suspender is a Driver that freezes a place with its processes, and lets it go on. A
// suspended place uses no CPU and keeps its memory; Attach and Provision resume it.
type Suspender interface {
	// Suspend freezes the place of key. One that is suspended is no error; one that does
	// not run is CodeNotFound.
	Suspend(ctx context.Context, key spec.Key, o ReapOptions) error
	// Resume lets it go on. One that runs is no error.
	Resume(ctx context.Context, key spec.Key, o ReapOptions) error
}

// Snapshotter is a Driver that keeps the files of a place, and makes places of them.
type Snapshotter interface {
	// Snapshot keeps the files of the place of key: its image's, its own, and those of its
	// volumes; not its processes, and not what is mounted from outside. The place is
	// frozen meanwhile, and as it was afterwards; it may be stopped. What cannot be kept is
	// CodeUnsupported, and one of a place that somebody has let go on meanwhile, by any call
	// that works in it, CodeUnavailable; nothing is made then. Those of one place wait for
	// each other.
	Snapshot(ctx context.Context, key spec.Key, o SnapshotOptions) (spec.Snapshot, error)
	// Restore makes the place of s, which must not exist (CodeExists), of a snapshot: s
	// says everything but the image. A snapshot of another owner, or none, is CodeNotFound.
	Restore(ctx context.Context, id string, s *spec.Spec, o ProvisionOptions) (Session, error)
	// Snapshots lists those of this owner, the oldest first.
	Snapshots(ctx context.Context) ([]spec.Snapshot, error)
	// RemoveSnapshot removes one. Places made of it stay. It is idempotent.
	RemoveSnapshot(ctx context.Context, id string, o ReapOptions) error
}

// SnapshotOptions modify Snapshot.
type SnapshotOptions struct {
	Authority Authority
	// ID is the name of the snapshot to make; one that exists is CodeExists. "": a random
	// one.
	ID string
	// Progress, if set, is called with what takes long; never concurrently.
	Progress func(spec.Progress)
}

// Archiver is a Driver that reads the files of a place without its guest.
type Archiver interface {
	// ReadArchive hands what is in the directory dir of the place of key, "" being its
	// workdir, to read as a tar archive. The place need not run, and is not started; one that is suspended is CodeUnavailable.
	// What is in the archive is the place's: hostile. A dir that is not there is
	// CodeFileNotFound, one that is none CodeNotDirectory. The error of read is returned
	// as it is.
	ReadArchive(ctx context.Context, key spec.Key, dir string, o ReapOptions, read func(io.Reader) error) error
}

// PortMapper is a Session whose place has published ports.
type PortMapper interface {
	// PublishedPorts lists them with the host ports that they have got.
	PublishedPorts(ctx context.Context) ([]spec.PublishedPort, error)
}
