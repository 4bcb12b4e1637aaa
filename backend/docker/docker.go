package docker

import (
	"io"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/place"
	"github.com/berth-dev/berth/spec"
)

// Options configure New. The zero value uses the local engine and the standard
// hardening.
type Options struct {
	// Owner separates those who share an engine: each sees and reaps its own
	// places only. It follows the grammar of a spec.Key. "": "default".
	Owner string
	// Host is the engine's address: unix:///path, or tcp://host:port without
	// TLS. "": unix:///var/run/docker.sock.
	Host string
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
	d, err := place.New(engine.Docker(), place.Options(o))
	if err != nil {
		return nil, err
	}
	return d, nil
}
