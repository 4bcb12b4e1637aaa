package verb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/all"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/config"
	"github.com/berth-dev/berth/spec"
)

// AnswerTimeout bounds the asking of one backend among several.
const AnswerTimeout = 10 * time.Second

// cleanupTimeout bounds what is tidied up after a verb; what it leaves, a sandbox's own
// guest ends.
const cleanupTimeout = 20 * time.Second

// Env is what a verb runs with.
type Env struct {
	console.Console

	// Config and Registry are set by Prepare. Wrong is what is wrong with the
	// settings, for a verb that goes on all the same.
	Config   *config.Config
	Registry *all.Registry
	Wrong    []error

	concealed []string // values that are taken out of what is recorded
	closers   []func()
}

// Prepare resolves the configuration before a verb runs.
func (e *Env) Prepare(cmd *cobra.Command) error {
	e.Config, e.Wrong = config.LoadAll(config.OS(GivenSettings(cmd)))
	e.Color = e.Config.Color
	if len(e.Wrong) > 0 && cmd.Annotations[Tolerant] == "" {
		return e.Wrong[0]
	}
	backends := e.Config.Backends()
	if s := backends.Podman.Service; s != nil {
		s.Progress = func(p spec.Progress) { e.Note("%s", p.Message) }
	}
	e.Registry = all.New(backends)
	return nil
}

// Open returns the backend that the configuration names.
func (e *Env) Open() (driver.Driver, all.Backend, error) {
	b, err := e.Registry.Lookup(e.Config.Backend)
	if err != nil {
		return nil, b, err
	}
	d, err := OpenOne(b)
	return d, b, err
}

// OpenOne makes a driver. What is wrong with its options can be set right: an error
// says where.
func OpenOne(b all.Backend) (driver.Driver, error) {
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
	failed := spec.Wrap(err, "open", b.Name, "", "").(*spec.Error)
	if len(names) > 0 {
		failed.Hint = "this backend's settings are " + strings.Join(names, ", ")
	}
	return d, failed
}

// Owned lists what all backends have, in order; silent, unless it is nil, is told which
// do not answer.
func (e *Env) Owned(ctx context.Context, silent func(all.Backend, error)) []spec.Owned {
	backends := e.Registry.Backends()
	lists, errs := make([][]spec.Owned, len(backends)), make([]error, len(backends))
	var asking sync.WaitGroup
	for i, b := range backends {
		asking.Go(func() { lists[i], errs[i] = listOne(ctx, b) })
	}
	asking.Wait()
	for i, err := range errs {
		if err != nil && silent != nil {
			silent(backends[i], err)
		}
	}
	found := slices.Concat(lists...)
	slices.SortStableFunc(found, func(x, y spec.Owned) int {
		return cmp.Or(cmp.Compare(x.Backend, y.Backend), cmp.Compare(x.Key, y.Key))
	})
	return found
}

func listOne(ctx context.Context, b all.Backend) ([]spec.Owned, error) {
	ctx, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	d, err := OpenOne(b)
	if err != nil {
		return nil, err
	}
	return berth.List(ctx, d)
}

// Elsewhere returns a driver of another backend than the configured one that has a
// sandbox with the key, unless --backend has said which one is meant. Where there is none
// the error is CodeNotFound, and names the key and the backends that could not be asked.
func (e *Env) Elsewhere(ctx context.Context, key spec.Key) (driver.Driver, error) {
	if e.Config.Given("backend") {
		return nil, &spec.Error{Code: spec.CodeNotFound, Err: fmt.Errorf("%s has no sandbox with the key %q", e.Config.Backend, string(key))}
	}
	var silent []string
	for _, o := range e.Owned(ctx, func(b all.Backend, err error) {
		if spec.CodeOf(err) != spec.CodeInvalid { // that is a backend which is not set up
			silent = append(silent, fmt.Sprintf("%s could not be asked: %v", b.Name, err))
		}
	}) {
		if o.Key != key || o.Backend == e.Config.Backend {
			continue
		}
		b, err := e.Registry.Lookup(o.Backend)
		if err != nil {
			continue
		}
		if d, err := OpenOne(b); err == nil {
			return d, nil
		}
	}
	text := fmt.Sprintf("no sandbox has the key %q", string(key))
	if len(silent) > 0 {
		text += " (" + strings.Join(silent, "; ") + ")"
	}
	return nil, spec.New(spec.CodeNotFound, text)
}

// Attach finds the running sandbox that has the key. The caller lets go of it with
// Detach.
func (e *Env) Attach(ctx context.Context, name string) (*berth.Sandbox, driver.Driver, error) {
	key, err := KeyOf(name)
	if err != nil {
		return nil, nil, err
	}
	d, _, err := e.Open()
	if err != nil {
		return nil, nil, err
	}
	sb, err := e.attach(ctx, d, key)
	if spec.CodeOf(err) != spec.CodeNotFound {
		return sb, d, err
	}
	if stopped(ctx, d, key) {
		return nil, nil, &spec.Error{
			Code: spec.CodeNotFound, Err: fmt.Errorf("the sandbox with the key %q is stopped", name),
			Hint: "`berth up` with the flags that it was made with starts it",
		}
	}
	if d, err = e.Elsewhere(ctx, key); err != nil {
		return nil, nil, err
	}
	sb, err = e.attach(ctx, d, key)
	return sb, d, err
}

// attach attaches to a sandbox, and has recorded what is done to it.
func (e *Env) attach(ctx context.Context, d driver.Driver, key spec.Key) (*berth.Sandbox, error) {
	sb, err := berth.Attach(ctx, d, key)
	if err == nil {
		e.Audit(sb, d.Name())
	}
	return sb, err
}

// stopped reports whether a driver has a sandbox with the key all the same, after it
// could not be attached to.
func stopped(ctx context.Context, d driver.Driver, key spec.Key) bool {
	ctx, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	owned, err := berth.List(ctx, d)
	return err == nil && slices.ContainsFunc(owned, func(o spec.Owned) bool { return o.Key == key })
}

// Detach lets go of a sandbox, also after an interrupt.
func Detach(ctx context.Context, sb *berth.Sandbox) { _ = Cleanup(ctx, sb.Detach) }

// Cleanup makes one last call that an interrupted verb makes too.
func Cleanup(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	return f(ctx)
}

// KeyOf checks a key that a verb cannot do without.
func KeyOf(key string) (spec.Key, error) {
	if key == "" {
		return "", Usage("--key is missing: it says which sandbox is meant")
	}
	return spec.Key(key), spec.Wrap(spec.ValidateKey(spec.Key(key)), "", "", "", "")
}
