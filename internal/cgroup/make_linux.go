package cgroup

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

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
		g.close()
		return Group{}, errors.Join(err, h.removeAll(g.Dirs))
	}
	return g, nil
}

func (h *Host) make(g *Group, name string, l spec.Limits) error {
	for _, batch := range h.batches(l) {
		dir, err := h.place(g, name, batch, l)
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

// place makes the directory of a batch. Among the groups that systemd keeps, only those
// that it has made itself keep their limits: it takes a controller away from the others
// when none of its units needs it any more. So it is asked first.
func (h *Host) place(g *Group, name string, b batch, l spec.Limits) (string, error) {
	var scopeErr error
	if b.unified && h.scope != nil {
		dir, err := h.makeScope(g, name, b, l)
		if err == nil {
			return dir, nil
		}
		scopeErr = err
	}
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
	hint := "run as root, or where a part of the control groups is this user's"
	if os.Geteuid() == 0 {
		hint = "the control groups of this machine are not writable here, as in a container: set the limit where that is started"
	}
	reason := fmt.Sprintf("no control group can be made by uid %d: %v", os.Geteuid(), first)
	kind := b.kinds[0]
	if scopeErr != nil {
		reason += "; and no scope of systemd: " + causeOf(scopeErr)
		hint = cmp.Or(spec.HintOf(scopeErr), hint)
	}
	if e, ok := errors.AsType[*lower](scopeErr); ok {
		hint = e.hint()
		if slices.Contains(b.kinds, e.kind) {
			kind = e.kind
		}
	}
	return "", refuse(kind, reason, hint)
}

// causeOf is the text of an error without its code and its hint.
func causeOf(err error) string {
	if e, ok := errors.AsType[*spec.Error](err); ok && e.Err != nil {
		return e.Err.Error()
	}
	return err.Error()
}

func (h *Host) placeIn(parent, name string, b batch) error {
	if b.unified {
		if file := filepath.Join(parent, "cgroup.subtree_control"); unix.Access(file, unix.W_OK) != nil {
			return fmt.Errorf("%s may not be written", file)
		}
		if inhabited(parent) {
			return fmt.Errorf("%s has processes of its own, and so can have no limited groups below it", parent)
		}
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

// inhabited reports whether processes are right in a v2 group, for which no child of it
// can have any where controllers are handed down: with those of pids and cpu alone the
// kernel takes it for a group of threads, and lets nobody join. The topmost group of the
// machine, which has no type, is another matter.
func inhabited(dir string) bool {
	return len(words(filepath.Join(dir, "cgroup.type"))) > 0 && len(words(filepath.Join(dir, "cgroup.procs"))) > 0
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
			g.close()
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
