package podman

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/address"
	"github.com/berth-dev/berth/internal/engine/ondemand"
	"github.com/berth-dev/berth/internal/engine/place"
	"github.com/berth-dev/berth/spec"
)

// Options configure New. The zero value uses the local engine and the standard
// hardening.
type Options struct {
	// Owner separates those who share an engine: each sees and reaps its own
	// places only. It follows the grammar of a spec.Key. "": "default".
	Owner string
	// Host is the service's address: unix:///path, tcp://host:port without TLS, or
	// ssh://[user@]host[:port][/socket]; by ssh the user's own program of that name
	// connects. "": root's, unix:///run/podman/podman.sock.
	Host string
	// Sockets are paths that are tried in turn where Host is "" and root's service is
	// missing, or closed to this user: those of users' own services.
	Sockets []string
	// Service says how this user's own service is started where Host is "" and nobody
	// listens on any of these sockets. nil: none is.
	Service *Service
	// ConfigDir is the directory of a config.json in the form of the docker command's,
	// ~/.docker as a rule: credentials for registries are there. "": there are none.
	ConfigDir string
	// Limits and Hardening hold for every container that is created. A Spec that
	// states a limit of its own overrides it; its capabilities are dropped beside
	// these. no-new-privileges is set whenever any capability is dropped. nil: 512
	// processes and two CPUs; no NET_RAW, SETUID and SETGID.
	Limits    *spec.Limits
	Hardening *spec.Hardening
	// Guest says where the guest binary for the engine's platform is found.
	Guest guest.BinaryOptions
	// StateDir is where directories are kept by which containers on this machine are reached
	// without the engine's help, which is faster; they are mounted read-only into the
	// containers that are created. "": there are none.
	StateDir string
	// Transport wraps every connection to a guest; nil: none.
	Transport func(io.ReadWriteCloser) io.ReadWriteCloser
	// OrphanAfter is how long a place without a key outlives its last client,
	// ResumeWindow how long a command without a key outlives its connection.
	// 0: the guest's defaults.
	OrphanAfter, ResumeWindow time.Duration
}

// Service says how `podman system service` is started on demand, on Linux: as this user, in
// the namespaces and with the environment of this process. It serves every program of this
// user that names the same Dir, ends by itself once nobody has been connected for the time
// Idle, and is started again by whoever comes later; containers run on meanwhile.
type Service struct {
	// Command is the program, with options that go before its verb. nil: podman, as PATH
	// has it. Where it is missing nothing is started.
	Command []string
	// Dir holds the socket. It is an absolute path of at most 96 bytes; it is made with
	// mode 0700 if it is missing, and else has to be this user's alone.
	Dir string
	// Idle is in whole seconds. 0: one minute.
	Idle time.Duration
	// LookOnly: a service that runs is used, and none is started; then the error is
	// spec.CodeUnavailable with driver.ErrOnDemand.
	LookOnly bool
	// Progress is told of a start that takes longer than a second. nil: nobody is.
	Progress func(spec.Progress)
}

// idle is how long a service waits for somebody.
const idle = time.Minute

func (s *Service) dial() func(context.Context) (net.Conn, error) {
	if s == nil {
		return nil
	}
	command := slices.Clone(s.Command)
	if command == nil {
		command = []string{"podman"}
	}
	seconds := max(1, int64(cmp.Or(s.Idle, idle)/time.Second)) // 0 is for ever
	service := &ondemand.Service{
		Title: "Podman", Command: append(command, "system", "service", fmt.Sprintf("--time=%d", seconds)),
		Dir: s.Dir, LookOnly: s.LookOnly, Progress: s.Progress,
	}
	return service.Dial
}

// New returns a driver for one engine. It makes no call, and starts nothing.
func New(o Options) (driver.Driver, error) {
	d, err := place.New(engine.Podman(), place.Options{
		Owner: o.Owner, Engine: address.Options{Host: o.Host, Sockets: o.Sockets, OnDemand: o.Service.dial()}, Credentials: o.ConfigDir, Limits: o.Limits, Hardening: o.Hardening,
		StateDir: o.StateDir, Guest: o.Guest, Transport: o.Transport, OrphanAfter: o.OrphanAfter, ResumeWindow: o.ResumeWindow,
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}
