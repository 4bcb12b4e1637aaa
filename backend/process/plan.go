package process

import (
	"context"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/isolate"
	"github.com/berth-dev/berth/internal/place"
	"github.com/berth-dev/berth/spec"
)

// found remembers the guest binary: finding one reads all of it.
type found struct {
	mu   sync.Mutex
	bin  guest.Bin
	info os.FileInfo
}

// binary finds the guest binary, or answers with the one that was found before if it is
// still the same file.
func (b *backend) binary(ctx context.Context, progress func(spec.Progress)) (guest.Bin, error) {
	if bin, ok := b.found.get(); ok {
		return bin, nil
	}
	options := b.o.Guest
	if progress != nil {
		options.Progress = progress
	}
	bin, err := guest.Binary(ctx, runtime.GOOS, runtime.GOARCH, options)
	if err == nil {
		b.found.put(bin)
	}
	return bin, err
}

func (f *found) get() (guest.Bin, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.info == nil {
		return guest.Bin{}, false
	}
	now, err := os.Stat(f.bin.Path)
	same := err == nil && os.SameFile(now, f.info) && now.ModTime().Equal(f.info.ModTime()) && now.Size() == f.info.Size()
	return f.bin, same
}

func (f *found) put(bin guest.Bin) {
	info, err := os.Stat(bin.Path)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bin, f.info = bin, info
}

// plan finds the guest binary and puts the wall round it that the record asks for.
func (b *backend) plan(ctx context.Context, l place.Launch, progress func(spec.Progress)) (place.Plan, error) {
	bin, err := b.binary(ctx, progress)
	if err != nil {
		return place.Plan{}, err
	}
	args := append(append([]string{}, bin.Args...), l.Args...)
	if l.Record.Isolation == spec.IsolationNone {
		return place.Plan{Path: bin.Path, Args: args}, nil
	}
	bwrap, err := isolate.Find(b.o.Bwrap)
	if err != nil {
		return place.Plan{}, err
	}
	policy := b.policy(l)
	policy.Bwrap, policy.Program = bwrap, bin.Path
	if len(bin.Args) == 0 { // a directory of guests, and not that of somebody's program
		policy.Protected = []string{filepath.Dir(bin.Path)}
	}
	path, args, err := isolate.Guard(policy, args)
	return place.Plan{Path: path, Args: args, Wrapped: true}, err
}

// policy is the guard of one place.
func (b *backend) policy(l place.Launch) isolate.Policy {
	p := isolate.Policy{
		Workdir: l.Record.Workdir, WritableRoots: l.Spec.WritableRoots, OptionalRoots: []string{"/tmp", "/var/tmp"},
		State: b.o.StateDir, Network: l.Record.Network, InfoFD: place.InfoFD,
	}
	if git := isolate.GitCommonDir(l.Record.Workdir); git != "" {
		p.OptionalRoots = append(p.OptionalRoots, git)
	}
	var homes []string
	for _, entry := range b.o.BaseEnv {
		switch name, value, _ := strings.Cut(entry, "="); {
		case !filepath.IsAbs(value):
		case name == "TMPDIR":
			p.OptionalRoots = append(p.OptionalRoots, value)
		case name == "HOME":
			homes = append(homes, value)
		}
	}
	// HOME may have been set to something else; the credentials lie where they lie.
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) && !slices.Contains(homes, u.HomeDir) {
		homes = append(homes, u.HomeDir)
	}
	for _, home := range homes {
		p.Hidden = append(p.Hidden, isolate.Credentials(home)...)
	}
	p.Hidden = append(append(p.Hidden, b.o.HiddenPaths...), l.Spec.HiddenPaths...)
	return p
}

// notice is what a person should know about a place of this level.
func notice(level spec.Isolation, euid int) string {
	if level == spec.IsolationGuard && euid == 0 {
		return "guard runs as root: the hidden paths and the read-only mounts hold, but every other file that root can read can be read inside"
	}
	return ""
}
