package podman

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
	// Host is the service's address: unix:///path, tcp://host:port without TLS, or
	// ssh://[user@]host[:port][/socket]; by ssh the user's own program of that name
	// connects. "": root's, unix:///run/podman/podman.sock.
	Host string
	// Sockets are paths that are tried in turn where Host is "" and root's service is
	// missing, or closed to this user: those of users' own services.
	Sockets []string
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
	// Transport wraps every connection to a guest; nil: none.
	Transport func(io.ReadWriteCloser) io.ReadWriteCloser
	// OrphanAfter is how long a place without a key outlives its last client,
	// ResumeWindow how long a command without a key outlives its connection.
	// 0: the guest's defaults.
	OrphanAfter, ResumeWindow time.Duration
}

// New returns a driver for one engine. It makes no call.
func New(o Options) (driver.Driver, error) {
	d, err := place.New(engine.Podman(), place.Options{
		Owner: o.Owner, Engine: address.Options{Host: o.Host, Sockets: o.Sockets}, Credentials: o.ConfigDir, Limits: o.Limits, Hardening: o.Hardening,
		Guest: o.Guest, Transport: o.Transport, OrphanAfter: o.OrphanAfter, ResumeWindow: o.ResumeWindow,
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}
