package place

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/internal/cgroup"
	"github.com/berth-dev/berth/spec"
)

// spareThreads is what a guest has ahead whose place is limited in processes: what its
// clients make it do at one time, some file operations and the start of some commands.
const spareThreads = 12

// groupName is that of the control group of a place. The id follows from owner and key,
// which places in another state directory can have too.
func (r *Root) groupName(id string) string {
	dir := r.Dir
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	sum := sha256.Sum256([]byte(dir))
	return cgroup.Prefix + id + "-" + hex.EncodeToString(sum[:4])
}

// limit makes the control group of rec, if it is limited, and writes down where. It adds
// to l what tells the guest of it, or of the memory group that the place shares with
// this program. The record has been written before: a group whose maker dies is found by
// its name.
func (r *Root) limit(rec *Record, l *Launch) error {
	rec.Groups = nil
	host, err := cgroup.Discover()
	if err != nil && rec.Limits == (spec.Limits{}) {
		return nil
	}
	if err != nil {
		return err
	}
	l.Memory = host.MemoryGroup()
	if rec.Limits != (spec.Limits{}) {
		group, err := host.Make(r.groupName(rec.ID), rec.Limits)
		if err != nil {
			return err
		}
		rec.Groups, l.group = group.Dirs, group
		if group.Memory != "" {
			l.Memory = group.Memory
			l.limits = append(l.limits, "--memory-own")
		}
	}
	if l.Memory != "" {
		l.limits = append(l.limits, "--memory-group", l.Memory)
	}
	if rec.Limits.PIDs > 0 {
		l.limits = append(l.limits, "--spare-threads", strconv.Itoa(spareThreads))
	}
	return nil
}

// unlimit removes the control group of a place, with what still lives in it: its guest
// has ended. rec may be nil: then, as after a maker that died, the group is looked for.
// The caller holds the lock.
func (r *Root) unlimit(id string, rec *Record) error {
	if rec != nil && rec.Limits == (spec.Limits{}) {
		return nil
	}
	host, err := cgroup.Discover()
	if err != nil {
		return nil // then there is no group either
	}
	name := r.groupName(id)
	var dirs []string
	if rec != nil {
		dirs = rec.Groups
	}
	if len(dirs) == 0 {
		dirs = host.Lookup(name)
	}
	return host.Remove(name, dirs)
}

// tidy removes the control group of a place of ours that was found stopped: its guest
// ended by itself. One that is locked is being started or ended by somebody who sees to
// it.
func (r *Root) tidy(rec *Record) {
	if !slices.ContainsFunc(rec.Groups, dirExists) {
		return
	}
	l, err := r.tryLock(rec.ID)
	if err != nil {
		return
	}
	defer l.unlock()
	now, err := r.load(rec.ID)
	if err == nil && now != nil && now.Owner == r.Owner && !r.running(now) {
		_ = r.unlimit(rec.ID, now) // it is found again
	}
}

// joined is the process that is started: it becomes the planned one, after it has joined
// the control group of the place, under the name that spawn gives it. The descriptor hold,
// if not 0, is closed then.
func (p *Plan) joined(name string, hold int) (path string, args []string) {
	if len(p.group.Dirs) == 0 {
		return p.Path, p.Args
	}
	join := append(slices.Clone(p.Guest[1:]), "join", "--as", name)
	for _, dir := range p.group.Dirs {
		join = append(join, "--group", dir)
	}
	if p.group.Mover != "" {
		join = append(join, "--mover", p.group.Mover)
	}
	if hold > 0 {
		join = append(join, "--hold-fd", strconv.Itoa(hold))
	}
	return p.Guest[0], slices.Concat(join, []string{"--", p.Path}, p.Args)
}
