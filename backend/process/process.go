package process

import (
	"context"
	"errors"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/environ"
	"github.com/berth-dev/berth/internal/idmap"
	"github.com/berth-dev/berth/internal/isolate"
	"github.com/berth-dev/berth/internal/place"
	"github.com/berth-dev/berth/spec"
)

// Name is the driver's name.
const name = "process"

// Options configure the backend. The zero value is usable.
type Options struct {
	// Owner is the label on our places; "": "default". Drivers of different
	// owners never see each other's.
	Owner string
	// StateDir is where places are kept; guard hides it. "": berth in
	// $XDG_STATE_HOME, which is .local/state in the home directory by default:
	// where the berth command keeps its places too.
	StateDir string
	// BaseEnv is the environment of every command beside the spec's, as
	// "NAME=value". nil: PATH, HOME, SHELL, USER, LOGNAME, LANG, LC_*, TERM,
	// TMPDIR and TZ of this program.
	BaseEnv []string
	// Bwrap is bubblewrap's path; "": /usr/bin/bwrap, else the bwrap on PATH. One
	// that lies in a writable root is refused.
	Bwrap string
	// HiddenPaths are hidden by guard in every place, as Spec.HiddenPaths are.
	HiddenPaths []string
	// Guest says where the guest binary comes from. This program itself may be
	// it, if its main calls selfexec.Main.
	Guest guest.BinaryOptions
	// Transport, if set, wraps each connection to a guest.
	Transport func(io.ReadWriteCloser) io.ReadWriteCloser
	// OrphanAfter is how long a place without a key outlives its last client,
	// ResumeWindow how long a command without a key outlives its connection. 0:
	// the guest's defaults, 30 s and 10 s.
	OrphanAfter, ResumeWindow time.Duration
}

// New returns the driver, which is a driver.Stopper too. It creates nothing. Elsewhere
// than on Linux it is CodeUnsupported.
func New(o Options) (driver.Driver, error) {
	if runtime.GOOS != "linux" {
		return nil, &spec.Error{Code: spec.CodeUnsupported, Backend: name, Err: errors.New("this backend needs linux"), Hint: "use docker, or a linux machine over ssh"}
	}
	if o.Owner == "" {
		o.Owner = "default"
	}
	if o.StateDir == "" {
		dir, err := stateDir(os.Environ())
		if err != nil {
			return nil, err
		}
		o.StateDir = dir
	}
	if !filepath.IsAbs(o.StateDir) {
		return nil, &spec.Error{Code: spec.CodeInvalidPath, Backend: name, Path: o.StateDir, Err: errors.New("the state directory is not an absolute path")}
	}
	if o.BaseEnv == nil {
		o.BaseEnv = environ.Base(os.Environ())
	}
	o.Guest.AllowSelf = true
	config, _ := os.UserConfigDir() // without one there is nothing to hide in it
	return &backend{o: o, configDir: config, sockets: isolate.Sockets(os.Environ())}, nil
}

// stateDir is the default state directory. A relative base is ignored, as the XDG
// specification asks; without HOME the system says where the home directory is.
func stateDir(environ []string) (string, error) {
	var base, home string
	for _, entry := range environ {
		switch name, value, _ := strings.Cut(entry, "="); name {
		case "XDG_STATE_HOME":
			base = value
		case "HOME":
			home = value
		}
	}
	if u, err := user.Current(); home == "" && err == nil {
		home = u.HomeDir
	}
	switch {
	case filepath.IsAbs(base):
	case filepath.IsAbs(home):
		base = filepath.Join(home, ".local", "state")
	default:
		return "", &spec.Error{Code: spec.CodeInvalid, Backend: name, Err: errors.New("there is no home directory"), Hint: "set HOME, or name a state directory"}
	}
	return filepath.Join(base, "berth"), nil
}

// backend is the driver. Its places lie in one directory of the state directory.
type backend struct {
	o         Options
	configDir string   // where programs keep their configurations; "": there is none
	sockets   []string // that this program's environment names
	found     found
	walled    walled
	limited   limited
	idmap     idmap.Mapper
}

// Name implements driver.Driver.
func (b *backend) Name() string { return name }

// root is the state directory for one call, whose progress the search for a guest
// binary reports.
func (b *backend) root(progress func(spec.Progress)) *place.Root {
	return &place.Root{
		Dir: filepath.Join(b.o.StateDir, name), Owner: b.o.Owner, BaseEnv: b.o.BaseEnv, Idmap: &b.idmap,
		Guest: func(ctx context.Context, l place.Launch) (place.Plan, error) { return b.plan(ctx, l, progress) },
	}
}

// Provision implements driver.Driver.
func (b *backend) Provision(ctx context.Context, s *spec.Spec, o driver.ProvisionOptions) (driver.Session, error) {
	s, err := b.resolve(ctx, s)
	if err != nil {
		return nil, err
	}
	options := place.ProvisionOptions{
		Replace: o.Replace, OrphanAfter: b.o.OrphanAfter, Resume: b.o.ResumeWindow, Guard: hold(o.Authority),
	}
	root := b.root(o.Progress)
	for attempt := 0; ; attempt++ {
		conn, rec, err := root.Provision(ctx, s, options)
		if err != nil {
			return nil, b.whyNot(ctx, s, err)
		}
		session, err := b.open(ctx, root, conn, rec, o.Authority)
		if err == nil {
			return session, nil
		}
		b.discard(ctx, root, rec)
		// A guest that was found and ended before it said hello had come to the
		// end of its time: its place is stopped now, and can be started. One that
		// this call started is worth another try only if it was the machine, or
		// somebody who replaced a file, that got in the way of the wrapper.
		const attempts = 3
		again := !rec.Started || isolate.MountVanished(err.Error()) || isolate.MountReplaced(err.Error())
		if !again || attempt == attempts || spec.CodeOf(err) != spec.CodeUnavailable || root.Running(rec) {
			return nil, b.whyNot(ctx, s, err)
		}
	}
}

// discard removes a place that was made for nothing, whatever became of the caller.
func (b *backend) discard(ctx context.Context, root *place.Root, rec place.Record) {
	const enough = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), enough)
	defer cancel()
	_ = root.Discard(ctx, rec) // what is left is found again: by its key, or by the next sweep
}

// Attach implements driver.Driver.
func (b *backend) Attach(ctx context.Context, key spec.Key, o driver.AttachOptions) (driver.Session, error) {
	if err := spec.ValidateKey(key); err != nil {
		return nil, err
	}
	root := b.root(nil)
	conn, rec, err := root.Attach(ctx, key)
	if err != nil {
		return nil, err
	}
	session, err := b.open(ctx, root, conn, rec, o.Authority)
	if err != nil {
		if spec.CodeOf(err) == spec.CodeUnavailable && !root.Running(rec) {
			err = &spec.Error{Code: spec.CodeNotFound, ID: rec.ID, Err: errors.New("the sandbox has stopped")}
		}
		return nil, err
	}
	return session, nil
}

// Owned implements driver.Driver.
func (b *backend) Owned(ctx context.Context) ([]spec.Owned, error) {
	owned, err := b.root(nil).Owned(ctx)
	for i := range owned {
		owned[i].Backend = name
	}
	return owned, err
}

// Reap implements driver.Driver.
func (b *backend) Reap(ctx context.Context, key spec.Key, o driver.ReapOptions) error {
	if err := spec.ValidateKey(key); err != nil {
		return err
	}
	return b.root(nil).Reap(ctx, key, place.EndOptions{Guard: hold(o.Authority)})
}

// Stop implements driver.Stopper.
func (b *backend) Stop(ctx context.Context, key spec.Key, o driver.ReapOptions) error {
	if err := spec.ValidateKey(key); err != nil {
		return err
	}
	return b.root(nil).Stop(ctx, key, place.EndOptions{Guard: hold(o.Authority)})
}

func hold(a driver.Authority) place.Guard { return place.Guard{Epoch: a.Epoch, Check: a.Check} }
