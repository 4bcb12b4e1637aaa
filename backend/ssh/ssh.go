package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/place/remote"
	"github.com/berth-dev/berth/spec"
)

const backendName = "ssh"

// Options say which host, and how to log in. Addr is required.
type Options struct {
	// Owner labels the places; others are not seen. Empty: "default".
	Owner string
	// Addr is "host", "host:port" or "[v6]:port"; without a port: 22.
	Addr string
	// User is the remote account. Empty: the name of the local one.
	User string
	// KeyFiles are private keys without a passphrase, tried in order; each must
	// be usable. Empty: those of id_ed25519, id_ecdsa and id_rsa in ~/.ssh that
	// are.
	KeyFiles []string
	// AgentSocket is the socket of an ssh-agent, whose keys are tried last; it
	// also stands in for key files with a passphrase. Empty: no agent.
	AgentSocket string
	// KnownHostsFiles list the keys of hosts; a missing file is an empty one.
	// Empty: ~/.ssh/known_hosts. Host keys are always checked.
	KnownHostsFiles []string
	// DialTimeout bounds connecting and logging in. 0: 15 s.
	DialTimeout time.Duration
	// Dial replaces the dialling of TCP. nil: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// RemoteDir is the state directory on the host: an absolute path, taken
	// literally. Empty: .local/state/berth in the user's home.
	RemoteDir string

	// Guest says where to find the guest binary; a program that re-executes
	// itself will not do here.
	Guest guest.BinaryOptions
	// Transport, if set, wraps each connection to a guest.
	Transport func(io.ReadWriteCloser) io.ReadWriteCloser
	// OrphanAfter is how long a place without a key outlives its last client,
	// ResumeWindow how long a command outlives a lost connection. 0: the
	// guest's defaults.
	OrphanAfter, ResumeWindow time.Duration

	home string // of the local user
}

// New returns the driver of one host. It connects to nothing.
func New(o Options) (driver.Driver, error) {
	if err := o.resolve(); err != nil {
		return nil, err
	}
	h := &host{o: o, ready: make(chan struct{}, 1), uploading: make(chan struct{}, 1)}
	h.pool = newPool(h.o.dial, defaultTiming())
	return h, nil
}

// resolve fills the defaults in, and copies what the caller could change.
func (o *Options) resolve() error {
	host, port, err := splitAddr(o.Addr)
	if err != nil {
		return &spec.Error{Code: spec.CodeInvalid, Err: err, Hint: "give the address as host or host:port"}
	}
	o.Addr = net.JoinHostPort(host, port)
	me, err := user.Current()
	if err == nil {
		o.home = me.HomeDir
	}
	if o.User == "" {
		if err != nil {
			return &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("the local user is not known: %w", err), Hint: "name the remote user"}
		}
		o.User = me.Username
	}
	if o.RemoteDir != "" {
		if err := spec.ValidatePath(o.RemoteDir); err != nil {
			return err
		}
		if !path.IsAbs(o.RemoteDir) {
			return &spec.Error{Code: spec.CodeInvalidPath, Path: o.RemoteDir, Err: errors.New("the remote directory is not an absolute path"), Hint: "~ is not expanded: name it from / on"}
		}
		o.RemoteDir = path.Clean(o.RemoteDir)
	}
	if o.DialTimeout < 0 || o.OrphanAfter < 0 || o.ResumeWindow < 0 {
		return spec.New(spec.CodeInvalid, "a duration is negative")
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = defaultDialTimeout
	}
	if o.Owner == "" {
		o.Owner = "default"
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	o.KeyFiles = slices.Clone(o.KeyFiles)
	o.KnownHostsFiles = slices.Clone(o.KnownHostsFiles)
	if len(o.KnownHostsFiles) == 0 {
		o.KnownHostsFiles = []string{filepath.Join(o.home, ".ssh", "known_hosts")}
	}
	// The program at hand is of this machine, and may be anything.
	o.Guest.AllowSelf = false
	return nil
}

func splitAddr(addr string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(addr)
	if err != nil {
		// A bare name, or a bare IPv6 address.
		host, port = strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]"), defaultPort
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return "", "", fmt.Errorf("address %q: %w", addr, err)
		}
	}
	if host == "" || strings.ContainsAny(host, " \t\r\n\x00/@") {
		return "", "", fmt.Errorf("address %q names no host", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", "", fmt.Errorf("address %q: the port is not a number from 1 to 65535", addr)
	}
	return host, port, nil
}

// Name implements driver.Driver.
func (h *host) Name() string { return backendName }

// caps is what can be had on any host.
func caps() spec.Caps {
	c := spec.Caps{
		Backend:   backendName,
		Isolation: spec.IsolationSet(spec.IsolationNone),
		Network:   spec.NetworkSet(spec.NetworkOpen),
		Keyed:     true,
		Resume:    true, NativePrograms: true,
		Jobs: spec.JobsDurable, Terminals: true, Watch: true, Trees: true, Ports: true, Events: true,

		WorkspaceRoot: true,
	}
	const why = "a place on an ssh host is the remote user's own processes, without a wall; use isolation none"
	for _, l := range []spec.Isolation{spec.IsolationGuard, spec.IsolationJail, spec.IsolationStandard, spec.IsolationStrict} {
		c = c.AddMissing(string(l), why)
	}
	for _, n := range []spec.Network{spec.NetworkNone, spec.NetworkLimited} {
		c = c.AddMissing("network "+string(n), "a place on an ssh host uses the host's network; use network open")
	}
	for _, limit := range []string{"limit_memory", "limit_pids", "limit_cpu"} {
		c = c.AddMissing(limit, "no control group is made on an ssh host: limit the remote user there")
	}
	return c.AddMissing("image", "a place on an ssh host has the host's file system")
}

// Probe implements driver.Driver: it logs in and asks what the host is.
func (h *host) Probe(ctx context.Context) (spec.Caps, error) {
	f, err := h.pool.probe(ctx, h.o.RemoteDir)
	if err != nil {
		return spec.Caps{}, err
	}
	c := caps()
	c.OS, c.Arch = f.os, f.arch
	return c, nil
}

// Provision implements driver.Driver.
func (h *host) Provision(ctx context.Context, s *spec.Spec, o driver.ProvisionOptions) (driver.Session, error) {
	s = s.Clone()
	if s.Isolation == spec.IsolationDefault {
		s.Isolation = spec.IsolationNone
	}
	if s.Network == spec.NetworkDefault {
		s.Network = spec.NetworkOpen
	}
	if err := caps().Check(s); err != nil {
		return nil, err
	}
	req := h.request(o.Authority)
	req.Mode, req.Replace = remote.ModeProvision, o.Replace
	req.OrphanAfterMS, req.ResumeMS = millis(h.o.OrphanAfter), millis(h.o.ResumeWindow)
	req.SetSpec(s)
	return h.connect(ctx, req, o.Authority, o.Progress)
}

// Attach implements driver.Driver.
func (h *host) Attach(ctx context.Context, key spec.Key, o driver.AttachOptions) (driver.Session, error) {
	if err := spec.ValidateKey(key); err != nil {
		return nil, err
	}
	req := h.request(o.Authority)
	req.Mode, req.Key = remote.ModeAttach, key
	return h.connect(ctx, req, o.Authority, nil)
}

// Owned implements driver.Driver.
func (h *host) Owned(ctx context.Context) ([]spec.Owned, error) {
	c := call{verb: remote.VerbList, req: h.request(driver.Authority{})}
	answer, err := h.ask(ctx, c)
	if errors.Is(err, errNoDir) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := answer.Owned[:0]
	for _, item := range answer.Owned {
		if spec.ValidateKey(item.Key) == nil { // another one could not be used anyway
			item.Backend = backendName
			out = append(out, item)
		}
	}
	return out, nil
}

// Reap implements driver.Driver.
func (h *host) Reap(ctx context.Context, key spec.Key, o driver.ReapOptions) error {
	return h.end(ctx, remote.VerbReap, key, o)
}

// Stop implements driver.Stopper.
func (h *host) Stop(ctx context.Context, key spec.Key, o driver.ReapOptions) error {
	return h.end(ctx, remote.VerbStop, key, o)
}

func (h *host) end(ctx context.Context, verb string, key spec.Key, o driver.ReapOptions) error {
	if err := spec.ValidateKey(key); err != nil {
		return err
	}
	req := h.request(o.Authority)
	req.Key = key
	_, err := h.ask(ctx, call{verb: verb, req: req, auth: o.Authority, changes: true})
	if errors.Is(err, errNoDir) {
		return nil
	}
	return err
}

func (h *host) request(a driver.Authority) *remote.Request {
	return &remote.Request{Owner: h.o.Owner, Epoch: a.Epoch}
}

// millis rounds up: a duration that is not zero stays so.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
