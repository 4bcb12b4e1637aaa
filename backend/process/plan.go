package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
func (b *backend) binary(ctx context.Context, untrusted []string, progress func(spec.Progress)) (guest.Bin, error) {
	if bin, ok := b.found.get(); ok {
		return bin, nil
	}
	options := b.o.Guest
	options.Untrusted = slices.Concat(options.Untrusted, untrusted)
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
	return f.bin, err == nil && sameFile(f.info, now)
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
	bin, err := b.binary(ctx, b.writable(l.Record.Workdir, l.Spec), progress)
	if err != nil {
		return place.Plan{}, err
	}
	args := append(append([]string{}, bin.Args...), l.Args...)
	if l.Record.Isolation == spec.IsolationNone {
		return place.Plan{Path: bin.Path, Args: args, Guest: append([]string{bin.Path}, bin.Args...)}, nil
	}
	bwrap, err := isolate.Find(b.o.Bwrap)
	if err != nil {
		return place.Plan{}, err
	}
	policy := b.policy(l)
	policy.Bwrap, policy.Program, policy.KeepRoot = bwrap, bin.Path, l.NoIdmap != nil
	if len(bin.Args) == 0 { // a directory of guests, and not that of somebody's program
		policy.Protected = append(policy.Protected, filepath.Dir(bin.Path))
	}
	wall, err := b.build(l, &policy, args) // a wrapper that it refuses is not tried
	if err != nil {
		return place.Plan{}, err
	}
	keep, err := b.wall(ctx, l.Record.Isolation)
	if err != nil {
		return place.Plan{}, err
	}
	if keep == nil {
		keep = l.NoIdmap
	} else if policy.KeepRoot = true; wall.Drop != nil {
		wall, err = b.build(l, &policy, args)
	}
	return place.Plan{
		Path: wall.Path, Args: wall.Args, Wrapped: true, Writable: wall.Writable, Hidden: wall.Hidden, Sealed: wall.Sealed, Detach: wall.Detach,
		Drop: (*place.Identity)(wall.Drop), Idmapped: wall.Idmapped, Guest: append([]string{bin.Path}, bin.Args...), Absent: wall.Absent, Notice: joined(notice(&policy, keep), unwatched(&wall)),
	}, err
}

// build is the wall of the place's level.
func (b *backend) build(l place.Launch, p *isolate.Policy, args []string) (isolate.Wall, error) {
	if l.Record.Isolation != spec.IsolationJail {
		return isolate.Guard(*p, args)
	}
	var err error
	if p.Etc, err = b.makeEtc(l.Dir, p); err != nil {
		return isolate.Wall{}, err
	}
	return isolate.Jail(*p, args)
}

// makeEtc makes the files by which a jail knows its user, in the place's own directory.
func (b *backend) makeEtc(dir string, p *isolate.Policy) (string, error) {
	user := isolate.User{Identity: p.RunsAs(), Home: lookup(b.o.BaseEnv, "HOME"), Shell: lookup(b.o.BaseEnv, "SHELL")}
	if name := lookup(b.o.BaseEnv, "USER"); user.UID == p.EUID {
		user.Name = name
	}
	path := filepath.Join(dir, "etc")
	if err := isolate.MakeEtc(path, user); err != nil {
		return "", &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the files of the jail cannot be made: %w", err)}
	}
	return path, nil
}

// policy is the wall of one place.
func (b *backend) policy(l place.Launch) isolate.Policy {
	p := isolate.Policy{
		Workdir: l.Record.Workdir, WritableRoots: l.Spec.WritableRoots, OptionalRoots: []string{l.State}, Temporary: b.temporary(),
		State: b.o.StateDir, Network: l.Record.Network, InfoFD: place.InfoFD, EUID: os.Geteuid(), EGID: os.Getegid(), Owner: isolate.OwnerOf(l.Record.Workdir),
		Confine: true,
	}
	if l.Record.OwnWorkdir { // the way to it is ours
		p.Workdir = canonical(p.Workdir)
	}
	if l.Memory != "" {
		p.Shown = append(p.Shown, l.Memory)
	}
	homes, writable := b.homes(), b.writable(l.Record.Workdir, l.Spec)
	p.Homes, p.OtherHomes = homes, people()
	b.maskSockets(&p, l.Record.Isolation, writable)
	if repo := isolate.Worktree(l.Record.Workdir, homes, writable); repo.Dir != "" {
		p.OptionalRoots = append(p.OptionalRoots, repo.Dir)
		p.Protected = append(p.Protected, repo.Protected...)
	}
	p.Protected = append(p.Protected, b.obeyed(writable)...)
	for _, home := range homes {
		p.Hidden = append(p.Hidden, isolate.Credentials(home, b.configDir)...)
	}
	p.Hidden = slices.Concat(p.Hidden, b.o.HiddenPaths, l.Spec.HiddenPaths, b.sockets)
	return p
}

// maskSockets masks the directories of sockets by which programs of this user, and of whom
// commands run as, are commanded. Those of the terminal multiplexer are made where a guard
// leaves their name to whoever comes first, and stay. What cannot be made is watched for.
func (b *backend) maskSockets(p *isolate.Policy, level spec.Isolation, writable []string) {
	dirs := []string{"/tmp"}
	if dir := b.multiplexerDir(); filepath.IsAbs(dir) && isolate.Reaches(writable, canonical(dir)) {
		dirs = append(dirs, canonical(dir))
	}
	for _, id := range slices.Compact([]isolate.Identity{{UID: p.EUID, GID: p.EGID}, p.RunsAs()}) {
		p.Own = append(p.Own, isolate.SocketDirs(id.UID, dirs...)...)
		if level == spec.IsolationJail || id.Nobody() { // a jail has a /tmp of its own; nobody attaches
			continue
		}
		for _, dir := range dirs {
			if path := filepath.Join(dir, fmt.Sprintf("tmux-%d", id.UID)); !makeFor(path, id) {
				p.Protected = append(p.Protected, path)
			}
		}
	}
}

// makeFor makes a directory for one user alone, if there is nothing by that name, and reports
// whether there is now. It follows no link, and what is there it leaves as it is.
func makeFor(path string, id isolate.Identity) bool {
	err := os.Mkdir(path, 0o700)
	if err != nil || id.UID == os.Geteuid() {
		return err == nil || errors.Is(err, fs.ErrExist)
	}
	// By a handle: somebody else may be able to rename what lies beside it.
	above, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return false
	}
	defer above.Close()
	made, err := above.OpenRoot(filepath.Base(path))
	if err != nil {
		return false
	}
	defer made.Close()
	return made.Chown(".", id.UID, id.GID) == nil
}

// multiplexerDir is where the terminal multiplexer keeps its sockets if not in /tmp. The
// environment of a guest does not say so unless it is made to.
func (b *backend) multiplexerDir() string {
	const name = "TMUX_TMPDIR"
	if dir := lookup(b.o.BaseEnv, name); dir != "" {
		return dir
	}
	return os.Getenv(name)
}

// temporary lists the directories for temporary files: guard leaves them writable.
func (b *backend) temporary() []string {
	dirs := []string{"/tmp", "/var/tmp"}
	if dir := lookup(b.o.BaseEnv, "TMPDIR"); filepath.IsAbs(dir) {
		dirs = append(dirs, dir)
	}
	return dirs
}

// writable lists what guard lets commands write for a spec, as it is spelled.
func (b *backend) writable(workdir string, s *spec.Spec) []string {
	return slices.Concat([]string{workdir}, s.WritableRoots, b.temporary())
}

// homes lists the home directories of the user. HOME may have been set to something
// else; the credentials lie where they lie.
func (b *backend) homes() []string {
	var homes []string
	if home := lookup(b.o.BaseEnv, "HOME"); filepath.IsAbs(home) {
		homes = append(homes, home)
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) && !slices.Contains(homes, u.HomeDir) {
		homes = append(homes, u.HomeDir)
	}
	return homes
}

// obeyed lists the directories of which a later run of ours believes what it finds: its
// configuration, and the guest binaries that it may put into other places. One that is
// missing and could be made by a command is made here, so that it can be protected.
func (b *backend) obeyed(writable []string) []string {
	dirs := []string{b.o.Guest.CacheDir}
	if cache, err := os.UserCacheDir(); dirs[0] == "" && err == nil {
		dirs[0] = filepath.Join(cache, "berth")
	}
	if b.configDir != "" {
		dirs = append(dirs, filepath.Join(b.configDir, "berth"))
	}
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return !filepath.IsAbs(dir) })
	for _, dir := range dirs {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) && isolate.Reaches(writable, canonical(dir)) {
			_ = os.MkdirAll(dir, 0o700) // what this user cannot make, no command can
		}
	}
	return dirs
}

// lookup returns the value of a variable in an environment, or "".
func lookup(environ []string, name string) string {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// people lists the home directories of this machine's people.
func people() []string {
	passwd, _ := os.ReadFile("/etc/passwd") // without it, those that are usual
	return isolate.People(passwd)
}

// notice is what a person should know about a place of this policy. why is why root
// stays root in it.
func notice(p *isolate.Policy, why error) string {
	if p.EUID != 0 || !p.KeepRoot {
		return ""
	}
	return fmt.Sprintf("runs as root, which cannot be made another user here (%v): the hidden paths and the read-only mounts hold, but every other file that root can read can be read inside", cause(why))
}

// unwatched is what a person should know of a wall that watches for less than it should.
func unwatched(w *isolate.Wall) string {
	if len(w.Unwatched) == 0 {
		return ""
	}
	return fmt.Sprintf("commands may make %d files that programs outside run or obey without it being told, the first of them %s: there are too many writable directories or submodules, or it cannot be looked at", len(w.Unwatched), w.Unwatched[0])
}

// joined is one notice of those that are not empty.
func joined(notices ...string) string {
	return strings.Join(slices.DeleteFunc(notices, func(text string) bool { return text == "" }), "; ")
}
