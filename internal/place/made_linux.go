package place

import (
	"path/filepath"

	"github.com/berth-dev/berth/internal/place/made"
	"github.com/berth-dev/berth/spec"
)

// madeName is the directory of what has appeared in places that have ended.
const madeName = "made"

// remember keeps what has appeared in the place of rec, which has ended and whose lock is
// held, of the names that programs outside run or obey. What its last commands left running
// may have made it when nobody was told any more.
func (r *Root) remember(rec *Record) {
	if len(rec.Absent) == 0 {
		return
	}
	made.Keep(filepath.Join(r.Dir, madeName), rec.ID, r.dirOf(rec.ID), rec.Absent)
	rec.Absent = nil // it is looked for once
	_ = r.save(rec)
}

// collect remembers what has appeared in the places of ours that have ended by themselves.
// One that is locked is being started or ended by somebody who sees to it.
func (r *Root) collect() {
	ids, err := r.ids()
	if err != nil {
		return
	}
	ended := func(id string) *Record {
		rec, err := r.load(id)
		if err != nil || rec == nil || rec.Owner != r.Owner || len(rec.Absent) == 0 || r.running(rec) {
			return nil
		}
		return rec
	}
	for _, id := range ids {
		if ended(id) == nil {
			continue
		}
		l, err := r.tryLock(id)
		if err != nil {
			continue
		}
		if !dirExists(r.dirOf(id)) {
			l.unlockAndForget()
			continue
		}
		if rec := ended(id); rec != nil {
			r.remember(rec)
		}
		l.unlock()
	}
}

// appeared notes in rec, whose place is about to be started, what was made in earlier ones
// where this one can write, and returns how that is forgotten once it has been told.
func (r *Root) appeared(rec *Record, s *spec.Spec) (told func()) {
	if rec.Isolation == spec.IsolationNone {
		return func() {}
	}
	r.collect()
	text, told := made.Tell(filepath.Join(r.Dir, madeName), append([]string{rec.Workdir}, s.WritableRoots...))
	if text != "" {
		rec.note("programs outside run or obey what has appeared since an earlier sandbox started here: " + text)
	}
	return told
}
