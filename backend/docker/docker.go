package docker

import (
	"io"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/address"
	"github.com/berth-dev/berth/internal/engine/place"
	"github.com/berth-dev/berth/spec"
)

// Options configure New. The zero value uses the local engine and the standard
// hardening.
type Options struct {
	// Owner separates those who share an engine: each sees and reaps its own
	// places only. It follows the grammar of a spec.Key. "": "default".
	Owner string
	// Host is the engine's address: unix:///path, tcp://host[:port],
	// ssh://[user@]host[:port][/socket], or npipe:////./pipe/name on Windows. By ssh
	// the user's own program of that name connects, once for all; it asks for no
	// password. "": that of Context, else unix:///var/run/docker.sock.
	Host string
	// Context is a context of Docker's command line; "": the one that is current in
	// ConfigDir, "default": none. ConfigDir, ~/.docker as a rule, is where these and the
	// credentials for registries are kept; "": there are none, and New reads no file.
	Context, ConfigDir string
	// Sockets are paths that are tried in turn where nothing above names an engine and
	// the usual socket is missing: those of engines without root.
	Sockets []string
	// TLS: a tcp:// engine is spoken to by TLS, with the ca.pem, cert.pem and key.pem of
	// TLSDir, or where that is "" of ConfigDir. A context brings its own. A file that is
	// missing is not used: without a ca.pem the system's authorities are believed.
	TLS    bool
	TLSDir string
	// BuildKit says whether images are built with BuildKit, rather than by the classic
	// builder. nil: where the engine has it and is not configured for the other.
	BuildKit *bool
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

// New returns a driver for one engine. It reads the files of a context and certificates,
// and makes no call.
func New(o Options) (driver.Driver, error) {
	d, err := place.New(engine.Docker(), place.Options{
		Owner:       o.Owner,
		Engine:      address.Options{Host: o.Host, Context: o.Context, ConfigDir: o.ConfigDir, Sockets: o.Sockets, TLS: o.TLS, TLSDir: o.TLSDir},
		Credentials: o.ConfigDir, BuildKit: o.BuildKit,
		StateDir: o.StateDir,
		Limits:   o.Limits, Hardening: o.Hardening, Guest: o.Guest, Transport: o.Transport, OrphanAfter: o.OrphanAfter, ResumeWindow: o.ResumeWindow,
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}
