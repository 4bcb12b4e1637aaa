package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/all"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/snapshotcmd"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/internal/config"
)

// placeFlags are the flags of the verbs that make a sandbox.
type placeFlags struct {
	key         string
	workdir     string
	root        string
	idleTimeout time.Duration
	ttl         time.Duration
	replace     bool
	build       string
	buildFlags  verb.BuildFlags
	// made: the image is that of something that there is, and no flag's.
	made bool
}

// ofWhatThereIs are the flags of verbs that make a sandbox of what another one has left.
func ofWhatThereIs() snapshotcmd.Place {
	f := &placeFlags{made: true}
	return snapshotcmd.Place{Add: f.add, Spec: f.spec}
}

// placeSettings are the settings that say what a sandbox is.
var placeSettings = []string{
	"backend", "owner", "isolation", "network", "writable", "hide", "image",
	"sandbox.memory_bytes", "sandbox.cpu_millis", "sandbox.pids", "sandbox.cap_drop", "sandbox.read_only_root", "sandbox.user",
}

func (f *placeFlags) add(flags *pflag.FlagSet) {
	settings := slices.DeleteFunc(slices.Clone(placeSettings), func(s string) bool { return f.made && s == "image" })
	verb.AddSettings(flags, settings...)
	verb.AddSettings(flags, verb.ContainerSettings()...)
	verb.AddKey(flags, &f.key, "`KEY` by which the sandbox is kept and found again")
	flags.StringVar(&f.workdir, "workdir", "", "`DIR` of the sandbox where commands run (default: the current one, where the sandbox is on this machine)")
	flags.StringVar(&f.root, "workspace-root", "", "confine the file verbs, not the commands, to this `DIR` of the sandbox, links included")
	flags.DurationVar(&f.idleTimeout, "idle-timeout", 0, "end the sandbox after `DURATION` without a client and a command")
	flags.DurationVar(&f.ttl, "ttl", 0, "end the sandbox `DURATION` after its start")
	if f.made {
		return
	}
	flags.StringVar(&f.build, "build", "", "build the image from this `DIR`, unless that has been done; excludes --image")
	f.buildFlags.Add(flags)
	flags.BoolVar(&f.replace, "replace", false, "remove a sandbox that has the key and another specification, and make a new one")
}

// spec builds the specification that flags and configuration ask for. What file and
// environment say of images, roots and hidden paths is for the backends that have
// such a thing; what a flag says is demanded of any.
func (f *placeFlags) spec(c *config.Config, b all.Backend) (berth.Spec, error) {
	limits, hardening := c.Demanded()
	s := berth.Spec{
		Key: berth.Key(f.key), Workdir: f.workdir, WorkspaceRoot: f.root, Isolation: c.Isolation, Network: c.Network,
		Limits: limits, Hardening: hardening, IdleTimeout: f.idleTimeout, TTL: f.ttl,
	}
	if !f.made && (b.Container || c.Given("image")) {
		s.Image = c.Image
	}
	dir, err := os.Getwd()
	if err != nil {
		return s, verb.Usage("the current directory cannot be had: %w", err)
	}
	if err := f.addBuild(c, &s, dir); err != nil {
		return s, err
	}
	if b.Container && !f.made && s.Image == "" && s.Build == nil {
		return s, verb.Usage("the %s backend needs --image or --build: what the sandbox is made of", b.Name)
	}
	if b.Local {
		s.Workdir = absolute(dir, f.workdir)
		if f.root != "" {
			s.WorkspaceRoot = absolute(dir, f.root)
		}
	}
	if b.Local || c.Given("writable") {
		s.WritableRoots = allAbsolute(dir, c.Writable)
	}
	if b.Local || c.Given("hide") {
		s.HiddenPaths = allAbsolute(dir, c.Hidden)
	}
	verb.AddContainer(&s, c, b, dir)
	return s, nil
}

// addBuild adds what the image is built from. It goes before an image that file or
// environment name.
func (f *placeFlags) addBuild(c *config.Config, s *berth.Spec, dir string) error {
	switch {
	case f.build == "" && f.buildFlags.Given():
		return verb.Usage("--dockerfile and --build-arg go with --build DIR")
	case f.build == "":
		return nil
	case c.Given("image"):
		return verb.Usage("--image and --build exclude each other")
	}
	var err error
	s.Image = ""
	s.Build, err = f.buildFlags.Build(c, dir, f.build)
	return err
}

// absolute is filepath.Abs for a directory that is known.
func absolute(dir, p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(dir, p)
}

func allAbsolute(dir string, paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, absolute(dir, p))
	}
	return out
}

// provision makes or adopts the sandbox that flags ask for, showing what takes long.
func (a *app) provision(ctx context.Context, d driver.Driver, s berth.Spec, replace bool) (*berth.Sandbox, error) {
	p := a.Progress("starting the sandbox")
	defer p.Stop()
	sb, err := berth.ProvisionWith(ctx, d, s, berth.ProvisionOptions{Replace: replace, Progress: p.Report})
	if err != nil {
		return nil, err
	}
	p.Stop()
	a.Audit(sb, d.Name())
	a.warnOfHome(s)
	a.Detail("sandbox %s on %s", sb.ID(), d.Name())
	if console.Terminal(a.Stderr) {
		if st, err := sb.Status(ctx); err == nil && st.Notice != "" {
			a.Note("%s", st.Notice)
		}
	}
	return sb, nil
}

// warnOfHome says that a wall with the home directory inside it keeps little: what a
// shell reads at its start is in there.
func (a *app) warnOfHome(s berth.Spec) {
	home, _ := a.Config.Lookup("HOME")
	below, err := filepath.Rel(s.Workdir, home)
	if home == "" || s.Workdir == "" || err != nil || s.Isolation == berth.IsolationNone || below == ".." || strings.HasPrefix(below, ".."+string(filepath.Separator)) {
		return
	}
	a.Note("the command can write all of your home directory: start in a project's directory, or name one with --workdir")
}
