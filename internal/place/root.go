package place

import (
	"context"
	"time"

	"github.com/berth-dev/berth/internal/cgroup"
	"github.com/berth-dev/berth/internal/idmap"
	"github.com/berth-dev/berth/spec"
)

// Root is a state directory as one owner uses it. The zero value is not usable.
type Root struct {
	// Dir is made with mode 0700 when it is first needed. It may be longer than
	// a socket's name can be.
	Dir string
	// Owner is the label that this Root puts on its places; it sees no others.
	Owner string
	// BaseEnv is the environment of commands, beside the spec's: "NAME=value".
	BaseEnv []string
	// Guest says how a guest is run.
	Guest Starter
	// Idmap makes what a Plan has Idmapped. nil: no Plan has anything.
	Idmap *idmap.Mapper
}

// Starter plans the process of a guest. It starts nothing. Its error ends Provision
// with nothing made.
type Starter func(ctx context.Context, l Launch) (Plan, error)

// Launch is what a Starter is told.
type Launch struct {
	Record Record
	Spec   *spec.Spec
	// Args are the guest's arguments, "serve" first. They name the listener as
	// descriptor ListenFD.
	Args []string
	// Dir is the place's directory on this machine, and State the directory in
	// it that is the guest's own: to be written inside too.
	Dir, State string
	// NoIdmap, if set, is why the last plan's Idmapped could not be had on this
	// machine: the one that is asked for has to do without.
	NoIdmap error

	// Memory is the directory of the memory control group that the place is in, or "":
	// the guest reads it, inside.
	Memory string

	limits []string // the guest's arguments that say in which control group it is
	group  cgroup.Group
}

// The descriptors that a planned process inherits beside its standard streams.
const (
	// ListenFD is the guest's listening socket.
	ListenFD = 3
	// EnvironFD is a file with the environment of commands, for the guest to read: what
	// is started gets another one, since a variable of a Spec can make a program outside
	// load a library that commands have written.
	EnvironFD = 4
	// InfoFD exists for a wrapped guest only; see Plan.
	InfoFD = 5
)

// Plan is a process to be started.
type Plan struct {
	Path string
	Args []string // without the program's own name
	// Wrapped says that the process is a wrapper round the guest, which writes
	// a JSON object with the guest's pid as "child-pid" to InfoFD, closes it,
	// does not pass it on, and ends when the guest does.
	Wrapped bool
	// Writable and Hidden are what a wall lets commands write and hides from
	// them, Sealed the mount points on which it stands; the record keeps them.
	Writable, Hidden, Sealed []string
	// Absent are names in Writable that did not exist, and that programs outside would run
	// or obey: what has appeared of them is told at the next start at the latest.
	Absent []string
	// Detach starts the process in a mount namespace of its own, in which nothing
	// is shared with this machine's.
	Detach bool
	// Drop is the user that a guest which is started by root becomes by itself; nil:
	// it stays who it is. Idmapped are the paths in which what belongs to root is to
	// belong to that user for this process, by a mount over each in its own namespace:
	// files and directories, without a link in their names. They need Drop.
	Drop     *Identity
	Idmapped []string
	// Guest is the guest's program with the arguments that go before a verb.
	Guest []string
	// Notice is what a person should know about the place, beside
	// ProvisionOptions.Notice.
	Notice string

	group cgroup.Group // what it joins first; it inherits Hold and lets go of it then
}

// Identity is a user and a group, by number.
type Identity struct{ UID, GID int }

// ProvisionOptions modify Provision.
type ProvisionOptions struct {
	// Replace removes a place whose spec differs and makes a new one.
	Replace bool
	// OrphanAfter and Resume are passed to the guest; 0: its defaults.
	OrphanAfter, Resume time.Duration
	// Notice is what a person should know about the place.
	Notice string
	Guard
}

// EndOptions modify Reap and Stop.
type EndOptions struct {
	// Grace is the time that commands get between TERM and KILL. 0:
	// spec.DefaultGrace.
	Grace time.Duration
	Guard
}

// Guard is the caller's right to act.
type Guard struct {
	// Epoch is refused with CodeStaleOwner by a place that has seen a higher one.
	Epoch uint64
	// Check, if set, is asked before anything is started, ended or removed; its
	// error stops the call.
	Check func(ctx context.Context) error
}

func (g Guard) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if g.Check == nil {
		return nil
	}
	return g.Check(ctx)
}
