package helper

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/moby/moby/api/types/container"
)

// Packer reads the volumes of a container by a guest in a container of its own, for an engine
// whose archives of what is in a volume say nothing of its owner.
type Packer struct {
	Engine *engine.Engine
	Auth   driver.Authority
	Image  string // some image that the engine has
	Bin    guest.Bin
	// Container is the one with the volumes, Userns the user namespace that it has, and
	// Prefix begins the names of containers that have the volumes of others.
	Container, Prefix string
	Userns            container.UsernsMode
}

// Read hands what lies in a volume to read as an archive, which has the owners that the
// container sees. The container need not run, and nothing may run in it.
func (p *Packer) Read(ctx context.Context, dir string, read func(context.Context, io.Reader) error) error {
	o := Options(p.Prefix+"pack-"+rand.Text(), p.Image, GuestMount(p.Bin, true))
	o.Config.Entrypoint = slices.Concat([]string{GuestPath}, p.Bin.Args, []string{"pack", dir})
	o.Config.User = "0:0"
	h := o.HostConfig
	h.VolumesFrom, h.UsernsMode = []string{p.Container}, p.Userns
	h.CapDrop, h.CapAdd, h.SecurityOpt = []string{"ALL"}, []string{"DAC_READ_SEARCH"}, []string{"no-new-privileges"}
	h.LogConfig = container.LogConfig{Type: "none"} // what it says is all of the volume
	return p.Engine.Output(ctx, p.Auth, o, func(archive io.Reader) io.Reader { return &ending{r: archive} }, read)
}

// wholeLine is what a guest writes behind an archive, given its length in bytes.
const wholeLine = "whole:%020d\n"

// ending passes on an archive, and takes one for cut off that does not end as its length says.
type ending struct {
	r    io.Reader
	n    int64
	tail []byte // the last bytes
}

// Read implements io.Reader.
func (e *ending) Read(p []byte) (int, error) {
	const most = len("whole:\n") + 20
	n, err := e.r.Read(p)
	e.n += int64(n)
	e.tail = append(e.tail, p[max(0, n-most):n]...)
	e.tail = slices.Delete(e.tail, 0, max(0, len(e.tail)-most))
	if err == io.EOF && string(e.tail) != fmt.Sprintf(wholeLine, e.n-int64(most)) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
