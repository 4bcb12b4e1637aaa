package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/all"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/config"
	"github.com/berth-dev/berth/spec"
)

// cleanupTimeout bounds what is tidied up after a command; what it leaves, a
// sandbox's own guest ends.
const cleanupTimeout = 20 * time.Second

// placeFlags are the flags of the verbs that make a sandbox.
type placeFlags struct {
	key         string
	workdir     string
	idleTimeout time.Duration
	ttl         time.Duration
	replace     bool
}

// placeSettings are the settings that say what a sandbox is.
var placeSettings = []string{
	"backend", "owner", "isolation", "network", "writable", "hide", "image",
	"sandbox.memory_bytes", "sandbox.cpu_millis", "sandbox.pids", "sandbox.cap_drop", "sandbox.read_only_root", "sandbox.user",
}

func (f *placeFlags) add(flags *pflag.FlagSet) {
	addSettings(flags, placeSettings...)
	flags.StringVarP(&f.key, "key", "k", "", "`KEY` by which the sandbox is kept and found again")
	flags.StringVar(&f.workdir, "workdir", "", "`DIR` of the sandbox where commands run (default: the current one, where the sandbox is on this machine)")
	flags.DurationVar(&f.idleTimeout, "idle-timeout", 0, "end the sandbox after `DURATION` without a client and a command")
	flags.DurationVar(&f.ttl, "ttl", 0, "end the sandbox `DURATION` after its start")
	flags.BoolVar(&f.replace, "replace", false, "remove a sandbox that has the key and another specification, and make a new one")
}

// spec builds the specification that flags and configuration ask for. What file and
// environment say of images, roots and hidden paths is for the backends that have
// such a thing; what a flag says is demanded of any.
func (f *placeFlags) spec(c *config.Config, b all.Backend) (berth.Spec, error) {
	limits, hardening := c.Demanded()
	s := berth.Spec{
		Key: berth.Key(f.key), Workdir: f.workdir, Isolation: c.Isolation, Network: c.Network,
		Limits: limits, Hardening: hardening, IdleTimeout: f.idleTimeout, TTL: f.ttl,
	}
	if b.Container || c.Given("image") {
		s.Image = c.Image
	}
	if b.Container && s.Image == "" {
		return s, usageError("the %s backend needs --image: what the sandbox is made of", b.Name)
	}
	dir, err := os.Getwd()
	if err != nil {
		return s, usageError("the current directory cannot be had: %w", err)
	}
	if b.Local {
		s.Workdir = absolute(dir, f.workdir)
	}
	if b.Local || c.Given("writable") {
		s.WritableRoots = allAbsolute(dir, c.Writable)
	}
	if b.Local || c.Given("hide") {
		s.HiddenPaths = allAbsolute(dir, c.Hidden)
	}
	return s, nil
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

// open returns the backend that the configuration names.
func (a *app) open() (driver.Driver, all.Backend, error) {
	b, err := a.registry.Lookup(a.config.Backend)
	if err != nil {
		return nil, b, err
	}
	d, err := openOne(b)
	return d, b, err
}

// openOne makes a driver. What is wrong with its options can be set right: an error
// says where.
func openOne(b all.Backend) (driver.Driver, error) {
	d, err := b.Open()
	if spec.CodeOf(err) != spec.CodeInvalid {
		return d, err
	}
	var names []string
	for _, s := range config.Settings() {
		if strings.HasPrefix(s.Key, b.Name+".") {
			names = append(names, s.Env)
		}
	}
	e := spec.Wrap(err, "open", b.Name, "", "").(*spec.Error)
	if len(names) > 0 {
		e.Hint = "this backend's settings are " + strings.Join(names, ", ")
	}
	return d, e
}

// provision makes or adopts the sandbox that flags ask for, showing what takes long.
func (a *app) provision(ctx context.Context, d driver.Driver, s berth.Spec, replace bool) (*berth.Sandbox, error) {
	p := a.progress("starting the sandbox")
	defer p.stop()
	sb, err := berth.ProvisionWith(ctx, d, s, berth.ProvisionOptions{Replace: replace, Progress: p.report})
	if err != nil {
		return nil, err
	}
	p.stop()
	a.warnOfHome(s)
	a.detail("sandbox %s on %s", sb.ID(), d.Name())
	if terminal(a.stderr) {
		if st, err := sb.Status(ctx); err == nil && st.Notice != "" {
			a.note("%s", st.Notice)
		}
	}
	return sb, nil
}

// warnOfHome says that a wall with the home directory inside it keeps little: what a
// shell reads at its start is in there.
func (a *app) warnOfHome(s berth.Spec) {
	home, _ := a.config.Lookup("HOME")
	below, err := filepath.Rel(s.Workdir, home)
	if home == "" || s.Workdir == "" || err != nil || s.Isolation == berth.IsolationNone || below == ".." || strings.HasPrefix(below, ".."+string(filepath.Separator)) {
		return
	}
	a.note("the command can write all of your home directory: start in a project's directory, or name one with --workdir")
}

// cleanup runs one last call that an interrupted verb makes too.
func cleanup(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	return f(ctx)
}

// completeKeys offers the keys of what the configured backend has.
func (a *app) completeKeys(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	if a.prepare(cmd, nil) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var keys []string
	for _, o := range a.owned(cmd.Context(), nil) {
		keys = append(keys, string(o.Key)+"\t"+o.Backend+" "+string(o.State))
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}
