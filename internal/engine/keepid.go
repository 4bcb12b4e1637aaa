package engine

import (
	"cmp"
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// Nobody is the user of a strict place whose caller is root.
const Nobody = "65534:65534"

// CallersUser is the nearest to a user namespace that keeps the caller's id: that id itself,
// so that what is mounted is the caller's own inside too, and nobody's where it is root's.
func CallersUser() string {
	uid, gid := os.Getuid(), os.Getgid()
	if uid <= 0 {
		return Nobody
	}
	return strconv.Itoa(uid) + ":" + strconv.Itoa(gid)
}

// KeepID is the user namespace in which the user whose engine it is has the ids that they have
// outside. In the namespace that such an engine has as a rule, that user is root.
const KeepID container.UsernsMode = "keep-id"

// Keeper is the user whose engine it is, in the form of Nobody, where containers can have the
// namespace KeepID; "": they cannot, or the engine has not been asked for its facts.
func (e *Engine) Keeper() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.facts == nil {
		return ""
	}
	return e.facts.Keeper
}

// Keep gives a container the user whose engine it is, with the ids that they have outside,
// where the engine can, and else the caller.
func (e *Engine) Keep(o *client.ContainerCreateOptions) {
	o.Config.User = CallersUser()
	if keeper := e.Keeper(); keeper != "" {
		o.Config.User, o.HostConfig.UsernsMode = keeper, KeepID
	}
}

// CheckKept holds a container against Keep. CodeUnsupported: it is something else.
func (e *Engine) CheckKept(ctx context.Context, auth driver.Authority, c *container.InspectResponse) error {
	f, err := e.Known(ctx, auth)
	kept := c.Config.User == cmp.Or(f.Keeper, CallersUser())
	if err == nil && kept && f.Keeper != "" {
		kept, err = e.keeps(ctx, auth, c)
	}
	if err == nil && !kept {
		err = spec.New(spec.CodeUnsupported, "the caller's id did not take effect on the engine")
	}
	return err
}

// HasUserns reports whether a container has a user namespace of its own, as Keep gives it one.
func HasUserns(c *container.InspectResponse) bool {
	return c.HostConfig.UsernsMode != "" && !c.HostConfig.UsernsMode.IsHost()
}

// Userns is the user namespace in which another container sees the owners that c sees.
func Userns(c *container.InspectResponse) container.UsernsMode {
	if HasUserns(c) {
		return KeepID // which is not what the engine calls it
	}
	return ""
}

// keeps reports whether a container's user is the one whose engine it is, with the ids that
// they have outside. Only Podman's own API says so.
func (e *Engine) keeps(ctx context.Context, auth driver.Authority, c *container.InspectResponse) (bool, error) {
	var answer struct {
		HostConfig struct {
			IDMappings struct{ UIDMap, GIDMap []string }
		}
	}
	err := e.Do(ctx, Call{Authority: auth, What: "inspect container", Reads: true}, func(ctx context.Context, _ *client.Client) error {
		return e.askLibpod(ctx, "/v4.0.0/libpod/containers/"+c.ID+"/json", &answer)
	})
	uid, gid, _ := strings.Cut(c.Config.User, ":")
	maps := answer.HostConfig.IDMappings
	return ownsOutside(maps.UIDMap, uid) && ownsOutside(maps.GIDMap, gid), err
}

// ownsOutside reports whether an id inside is that of the engine's user outside: in maps of
// "inside:outside:how many" that is 0.
func ownsOutside(maps []string, id string) bool {
	for _, m := range maps {
		if id != "" && strings.HasPrefix(m, id+":0:") {
			return true
		}
	}
	return false
}

// idMap is a range of ids as Podman describes those that it may use.
type idMap struct {
	Inside  int `json:"container_id"`
	Outside int `json:"host_id"`
}

// outsideRoot is the id outside that is root's inside, or 0.
func outsideRoot(maps []idMap) int {
	for _, m := range maps {
		if m.Inside == 0 {
			return m.Outside
		}
	}
	return 0
}
