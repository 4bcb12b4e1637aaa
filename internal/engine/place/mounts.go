package place

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/helper"
	"github.com/berth-dev/berth/internal/engine/mounts"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/mount"
)

// haveSources makes sure that the sources of mounts are there of which the engine would make
// a directory. Docker does so of shared ones, in its older way: a helper that has them in the
// newer way cannot be created. Of an engine that does so in any way the machine is looked at,
// if it is this one.
func (d *Driver) haveSources(ctx context.Context, p *plan) error {
	var sources []mount.Mount
	for _, m := range p.spec.Mounts {
		switch {
		case d.engine.MakesSources && d.direct.Lacks(ctx, m.Source):
			err := fmt.Errorf("mount %s: %w", m.Source, fs.ErrNotExist)
			return badMount(p, &spec.Error{Code: spec.CodeInvalid, Err: err})
		case m.Shared:
			sources = append(sources, mounts.Bind(m))
		}
	}
	if len(sources) == 0 {
		return nil
	}
	id, err := d.engine.Create(ctx, p.auth, helper.Options("berth-look-"+randomHex()[:12], p.spec.Image, sources...))
	if err != nil {
		return badMount(p, err)
	}
	bg, cancel := engine.Cleanup(ctx)
	defer cancel()
	return d.engine.Remove(bg, p.auth, id)
}

// badMount adds to the engine's refusal to create a container, where that talks of the
// source of a mount, whose path it is.
func badMount(p *plan, err error) error {
	e, ok := errors.AsType[*spec.Error](err)
	if !ok || !slices.ContainsFunc(p.spec.Mounts, func(m spec.Mount) bool { return strings.Contains(err.Error(), m.Source) }) {
		return err
	}
	return &spec.Error{Code: e.Code, Err: e.Err, Hint: "the source of a mount is a path of the machine that the engine runs on, and has to be there"}
}
