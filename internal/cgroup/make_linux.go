package cgroup

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/berth-dev/berth/spec"
)

// Make makes the group called name with the limits of l, which are not all 0, and reads
// them back. A group of that name that is there already is removed first, with what
// lives in it: the caller sees to it that nobody else has the name. What cannot be had
// is CodeUnsupported; an error leaves nothing behind.
func (h *Host) Make(name string, l spec.Limits) (Group, error) {
	if err := validName(name); err != nil {
		return Group{}, err
	}
	if err := Check(l); err != nil {
		return Group{}, err
	}
	var g Group
	err := h.make(&g, name, l)
	if err != nil {
		return Group{}, errors.Join(err, h.removeAll(g.Dirs))
	}
	return g, nil
}

func (h *Host) make(g *Group, name string, l spec.Limits) error {
	for _, batch := range h.batches(l) {
		dir, err := h.place(name, batch)
		if err != nil {
			return err
		}
		g.Dirs = append(g.Dirs, dir)
		for _, k := range batch.kinds {
			if err := h.at[k].set(dir, k, k.of(l)); err != nil {
				return err
			}
			if k == Memory {
				g.Memory = dir
			}
		}
	}
	for _, k := range kinds {
		if _, here := h.at[k]; k.of(l) > 0 && !here {
			return refuse(k, "this machine has no such control group where this process can see it", "")
		}
	}
	return nil
}

// batch are the kinds of limits that one directory holds.
type batch struct {
	hierarchy
	kinds []Kind
}

// batches groups what l asks for by the hierarchy that has it.
func (h *Host) batches(l spec.Limits) []batch {
	var out []batch
	for _, k := range kinds {
		t, here := h.at[k]
		if k.of(l) == 0 || !here {
			continue
		}
		if i := slices.IndexFunc(out, func(b batch) bool { return b.hierarchy == t }); i >= 0 {
			out[i].kinds = append(out[i].kinds, k)
		} else {
			out = append(out, batch{t, []Kind{k}})
		}
	}
	return out
}

// place makes the directory of a batch.
func (h *Host) place(name string, b batch) (string, error) {
	var first error
	for _, parent := range b.parents() {
		err := h.placeIn(parent, name, b)
		if err == nil {
			return filepath.Join(parent, name), nil
		}
		if first == nil {
			first = err
		}
	}
	hint := "run as root, or where a part of the control groups is this user's, as below a systemd user manager (systemd-run --user --scope -p Delegate=yes berth ...)"
	if os.Geteuid() == 0 {
		hint = "the control groups of this machine are not writable here, as in a container: set the limit where that is started"
	}
	return "", refuse(b.kinds[0], fmt.Sprintf("no control group can be made by uid %d: %v", os.Geteuid(), first), hint)
}

func (h *Host) placeIn(parent, name string, b batch) error {
	if b.unified {
		if err := enable(parent, b.kinds); err != nil {
			return err
		}
	}
	dir := filepath.Join(parent, name)
	err := h.mkdir(dir)
	if errors.Is(err, fs.ErrExist) {
		if err = h.removeAll([]string{dir}); err == nil {
			err = h.mkdir(dir)
		}
	}
	return err
}

// Probe makes and removes a group with every limit, or else one for each, and returns why there is none
// of a kind.
func (h *Host) Probe(ctx context.Context) map[Kind]error {
	try := func(l spec.Limits) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var random [6]byte
		_, _ = rand.Read(random[:]) // never fails
		g, err := h.Make(Prefix+"probe-"+hex.EncodeToString(random[:]), l)
		if err == nil {
			err = h.removeAll(g.Dirs)
		}
		return err
	}
	all := spec.Limits{MemoryBytes: 64 << 20, PIDs: 64, CPUMillis: 1000}
	why := map[Kind]error{}
	if try(all) == nil {
		return why
	}
	for k, l := range map[Kind]spec.Limits{Memory: {MemoryBytes: all.MemoryBytes}, PIDs: {PIDs: all.PIDs}, CPU: {CPUMillis: all.CPUMillis}} {
		if err := try(l); err != nil {
			why[k] = err
		}
	}
	return why
}
