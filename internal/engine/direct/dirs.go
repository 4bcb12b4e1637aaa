package direct

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
)

// Label names, on a container, the directory that it was made with. It is read back: its
// name is for ever.
const Label = "dev.berth.direct"

// limit bounds the wait for a guest that has been told of a socket, which takes it less than a
// millisecond unless the machine is busy; one that does not hear is not waited for. Tests
// change it.
var limit = time.Second

// firstLimit bounds the wait for a guest that is just starting to hear.
const firstLimit = 2 * time.Second

// errNone is why there is no direct way; the engine's is always there, so that nobody needs
// to know more.
var errNone = errors.New("there is no direct way to the guest")

// Dirs are the directories of the containers of one engine. They are safe for concurrent use.
type Dirs struct {
	Engine *engine.Engine
	// State is the directory in which they are kept, in one named "direct"; "": there are
	// none.
	State string
	// Target is where a container has its own.
	Target string

	mu    sync.Mutex
	group string // of the engine's directories
	depth int    // of the pid namespaces that the engine is in, as seen from here
}

// Mount returns what mounts the directory of a name; of "" nothing.
func (d *Dirs) Mount(name string) []mount.Mount {
	if name == "" {
		return nil
	}
	return []mount.Mount{{Type: mount.TypeBind, Source: d.Path(name), Target: d.Target, ReadOnly: true}}
}

// Path is where on this machine the directory of a name is that Make has returned.
func (d *Dirs) Path(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return filepath.Join(d.base(), d.group, name)
}

// Of returns the name of a container's directory if it is one of ours, else "". What a label
// says does not count unless the engine has mounted it.
func (d *Dirs) Of(c *container.InspectResponse) string {
	name := c.Config.Labels[Label]
	if !isName(name) || d.State == "" {
		return ""
	}
	if d.locate(context.Background()) != nil {
		return ""
	}
	for _, m := range c.Mounts {
		if m.Type == mount.TypeBind && path.Clean(m.Destination) == d.Target && m.Source == d.Path(name) && !m.RW {
			return name
		}
	}
	return ""
}

// isName reports whether name is one that Make gives.
func isName(name string) bool {
	b, err := hex.DecodeString(name)
	return err == nil && len(b) == nameBytes
}

const nameBytes = 8

func newName() string {
	var b [nameBytes]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Prune removes the directories of containers that the engine has no more, but for those that
// are younger than young: their containers may be in the making.
func (d *Dirs) Prune(ctx context.Context, auth driver.Authority, young time.Duration) error {
	if d.State == "" || d.locate(ctx) != nil {
		return nil
	}
	names := d.old(young) // before the engine is asked
	if len(names) == 0 {
		return nil
	}
	items, err := d.Engine.List(ctx, auth, nil)
	if err != nil {
		return err
	}
	for _, c := range items {
		delete(names, c.Labels[Label])
	}
	for name := range names {
		if !d.alive(name) { // the engine may have another store of containers
			d.Remove(name)
		}
	}
	return nil
}

// Dial connects to the guest of the container whose directory has a name and whose first
// process has, to the engine, a pid. starting: the guest may not be there yet. Any error says
// that there is no direct way, now.
func (d *Dirs) Dial(ctx context.Context, name string, pid int, starting bool) (net.Conn, error) {
	if name == "" || pid <= 0 || d.locate(ctx) != nil {
		return nil, errNone
	}
	return d.dial(ctx, name, pid, starting)
}
