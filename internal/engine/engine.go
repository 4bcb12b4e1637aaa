package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine/address"
	"github.com/berth-dev/berth/spec"
	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

const (
	// requestLimit bounds a request that touches no process, ProcessLimit a start, a
	// stop and a removal, which may have to wait for the kernel.
	requestLimit = 30 * time.Second
	ProcessLimit = 2 * time.Minute
	// cleanupLimit bounds what is tidied up after the caller has gone.
	cleanupLimit = 15 * time.Second
)

// Engine is the one way to an engine: every request passes through Do. It is safe for
// concurrent use, and keeps what it has learnt of the engine.
type Engine struct {
	Dialect

	api *client.Client
	at  *address.Address

	gates *gates
	turns turns

	recognised atomic.Bool // it has said that it is an engine

	mu    sync.Mutex
	facts *Facts // nil before the first answer
}

// Facts are what does not change while an engine runs.
type Facts struct {
	Arch              string // a GOARCH
	CPUs              int
	Memory, PIDs, CPU bool // the limits that its kernel offers
	Pause             bool // it can suspend a container
	Keeper            string
	Offers
}

// New returns the engine that o means; where it names none, the dialect's usual one. It
// makes no call. The error is a *spec.Error.
func New(d Dialect, o address.Options) (*Engine, error) {
	at, err := address.New(d.Host, o)
	if err != nil {
		return nil, err
	}
	opts := []client.Opt{client.WithUserAgent("berth")}
	if at.Dial == nil {
		opts = append(opts, client.WithHost(at.Host))
	} else {
		// To the SDK every engine is behind a socket: it then neither asks for a proxy
		// nor connects in a way of its own. It turns a failed dial into prose; this
		// keeps the cause.
		opts = append(opts, client.WithHost("unix:///engine"), client.WithDialContext(func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := at.Dial(ctx)
			if err != nil {
				return nil, &dialError{err}
			}
			return conn, nil
		}))
	}
	api, err := client.New(opts...)
	if err != nil {
		return nil, &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("engine address %.128q: %w", at.Host, err), Hint: d.NamedHint}
	}
	return &Engine{Dialect: d, api: api, at: at, gates: newGates()}, nil
}

// dialError is a connection that was never made: nothing was sent. Its text says
// nothing that the SDK looks for, and it hides its cause from errors.Is, so that it
// passes through the SDK as it is.
type dialError struct{ cause error }

func (e *dialError) Error() string { return "no connection to the engine" }

// Call says what is to be sent.
type Call struct {
	Authority driver.Authority
	What      string        // "start container": for messages
	Max       time.Duration // 0: 30 s
	// Changes: a request whose answer is lost may have taken effect.
	Changes bool
	// Reads: it changes nothing and returns at once. What the engine fails to say of a
	// container that is just being removed, an internal error, is asked for again.
	Reads bool
}

// Do sends one request: the fence is asked, the deadline set, the error given its
// code. What the SDK sends on its own before the first request, to agree on a
// version, reads only.
func (e *Engine) Do(ctx context.Context, c Call, send func(context.Context, *client.Client) error) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if err := c.Authority.Check(ctx); err != nil {
		return err
	}
	limit := c.Max
	if limit == 0 {
		limit = requestLimit
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := e.recognise(bounded)
	if err != nil {
		c.Changes = false // it was not sent
	} else {
		for try := 1; ; try++ {
			err = send(bounded, e.api)
			if !c.Reads || !cerrdefs.IsInternal(err) || try == settleTries || Pause(bounded, PollEvery) != nil {
				break
			}
		}
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ended(ctx)
	case bounded.Err() != nil:
		err = fmt.Errorf("no answer in %v", limit)
	}
	if e, ok := errors.AsType[*spec.Error](err); ok {
		return e
	}
	return e.classify(c, err)
}

// errNoCleanup is why a context of Cleanup has ended.
var errNoCleanup = &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the engine has not done within %v what must be done whatever becomes of the call", cleanupLimit)}

// Cleanup returns the context of what is tidied up, or finished, also where the caller has
// gone. When it takes too long its error is not one that the caller knows as his own.
func Cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), cleanupLimit, errNoCleanup)
}

// ended is the error of a context that has ended.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause == errNoCleanup {
		return cause
	}
	return ctx.Err()
}

// recognise asks once whether what answers is an engine that this program can speak to,
// and agrees with it on a version. Anything else would be taken at its word: to a web
// server's 404 a container does not exist.
func (e *Engine) recognise(ctx context.Context) error {
	if e.recognised.Load() {
		return nil
	}
	ping, err := e.api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	switch {
	case err == nil && ping.APIVersion != "":
		e.recognised.Store(true)
		return nil
	case ctx.Err() != nil:
		return err
	case err == nil, cerrdefs.IsNotFound(err), cerrdefs.IsNotImplemented(err):
		return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("what answers at %s is no %s engine", e.at.Host, e.Title), Hint: e.absentHint()}
	case cerrdefs.IsInvalidArgument(err) && ping.APIVersion == "":
		// To one who speaks plainly a server that wants TLS says that he is wrong.
		return &spec.Error{
			Code: spec.CodeUnavailable, Err: fmt.Errorf("what answers at %s does not speak plain HTTP", e.at.Host),
			Hint: "if it is an engine with TLS, set DOCKER_TLS_VERIFY and DOCKER_CERT_PATH",
		}
	case cerrdefs.IsInvalidArgument(err):
		return &spec.Error{
			Code: spec.CodeUnsupported, Hint: "install a newer engine: " + e.Oldest + " or later",
			Err: fmt.Errorf("the engine speaks API %.16q, this program %s to %s", ping.APIVersion, client.MinAPIVersion, client.MaxAPIVersion),
		}
	}
	return e.classify(Call{What: "ask the engine for its version"}, err)
}

// classify gives an error of the SDK its code: by type and by status, and not by its
// words, some of which come from inside a container; but for those of the kernel at the
// end of them.
func (e *Engine) classify(c Call, err error) error {
	out := &spec.Error{Err: &engineError{what: c.What, err: err}}
	var (
		d     *dialError
		ended *address.EndError
	)
	if errors.As(err, &d) {
		// The way to the engine knows best what is wrong with it.
		if e, ok := errors.AsType[*spec.Error](d.cause); ok {
			return e
		}
	}
	switch {
	case errors.As(err, &ended):
		out.Code, out.Err, out.Hint = spec.CodeUnavailable, ended, ended.Hint
		if c.Changes {
			out.Code = spec.CodeUnknownOutcome
		}
	case address.Refused(err):
		out.Code, out.Hint = spec.CodePermission, address.RefusedHint
	case errors.As(err, &d) && errors.Is(d.cause, fs.ErrPermission):
		out.Code, out.Err = spec.CodePermission, fmt.Errorf("engine at %s: %w", e.at.Host, d.cause)
		out.Hint = e.ClosedHint
	case errors.As(err, &d):
		out.Code, out.Err = spec.CodeUnavailable, fmt.Errorf("engine at %s: %w", e.at.Host, d.cause)
		out.Hint = e.absentHint()
	case cerrdefs.IsInternal(err) && strings.HasSuffix(err.Error(), fullDisk):
		out.Code = spec.CodeNoSpace
	case cerrdefs.IsNotFound(err):
		out.Code = spec.CodeNotFound
	case cerrdefs.IsInvalidArgument(err):
		out.Code = spec.CodeInvalid
	case cerrdefs.IsPermissionDenied(err), cerrdefs.IsUnauthorized(err):
		out.Code = spec.CodePermission
	case cerrdefs.IsNotImplemented(err):
		out.Code = spec.CodeUnsupported
	case cerrdefs.IsConflict(err), cerrdefs.IsInternal(err), cerrdefs.IsUnavailable(err):
		out.Code = spec.CodeUnavailable // the engine said no
	case c.Changes:
		out.Code = spec.CodeUnknownOutcome
	default:
		out.Code = spec.CodeUnavailable
	}
	if out.Hint == "" {
		out.Hint = e.advice(err.Error())
	}
	return out
}

// absentHint is the advice where no engine answers at the address.
func (e *Engine) absentHint() string {
	switch {
	case e.at.Context != "":
		return fmt.Sprintf("the docker context %q points there: start the engine of that address, or choose another (DOCKER_CONTEXT, docker context use default)", e.at.Context)
	case e.at.Named:
		return e.NamedHint
	}
	return e.AbsentHint
}

// engineError is what an engine answered, without the SDK's preamble.
type engineError struct {
	what string
	err  error
}

func (e *engineError) Error() string {
	return e.what + ": " + strings.TrimPrefix(e.err.Error(), "Error response from daemon: ")
}

func (e *engineError) Unwrap() error { return e.err }

// Known returns the engine's facts, asking at most once.
func (e *Engine) Known(ctx context.Context, auth driver.Authority) (Facts, error) {
	e.mu.Lock()
	f := e.facts
	e.mu.Unlock()
	if f != nil {
		return *f, nil
	}
	return e.Probe(ctx, auth)
}

// Probe asks the engine whether it is there, and the first time what it is.
func (e *Engine) Probe(ctx context.Context, auth driver.Authority) (Facts, error) {
	var f Facts
	err := e.Do(ctx, Call{Authority: auth, What: "ask the engine whether it is there"}, func(ctx context.Context, api *client.Client) error {
		_, err := api.Ping(ctx, client.PingOptions{})
		return err
	})
	if err != nil {
		return f, err
	}
	e.mu.Lock()
	asked := e.facts
	e.mu.Unlock()
	if asked != nil {
		return *asked, nil
	}
	err = e.Do(ctx, Call{Authority: auth, What: "ask the engine what it is"}, func(ctx context.Context, api *client.Client) error {
		res, err := api.Info(ctx, client.InfoOptions{})
		info := res.Info
		if err == nil && info.OSType != "" && info.OSType != "linux" {
			return spec.New(spec.CodeUnsupported, fmt.Sprintf("the engine runs %.16q containers, not linux ones", info.OSType))
		}
		f = Facts{Arch: goarch(info.Architecture), CPUs: info.NCPU, Memory: info.MemoryLimit && info.SwapLimit, PIDs: info.PidsLimit, CPU: info.CPUCfsQuota, Pause: true, Offers: offers(&info)}
		if err == nil && e.Libpod {
			err = e.withoutRoot(ctx, &f)
		}
		return err
	})
	if err != nil {
		return f, err
	}
	e.mu.Lock()
	e.facts = &f
	e.mu.Unlock()
	return f, nil
}

// goarch translates a kernel's name of a machine.
func goarch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	case "armv7l", "armv6l":
		return "arm"
	case "i386", "i686":
		return "386"
	}
	return machine // riscv64, ppc64le, s390x are called the same
}
