package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// suspendCases are about places that stand still, and places made of others.
func suspendCases() []Case {
	return []Case{
		{Name: "SuspendedPlaceGoesOn", Rule: "A suspended place keeps its processes and answers nothing; resumed it goes on where it was, and nothing is lost.", Need: all(needSuspend, needKeyed, needShell), Run: suspendGoesOn},
		{Name: "SuspendIsIdempotent", Rule: "To suspend a suspended place and to resume a running one is no error; Attach resumes; Reap removes a suspended one; one that is not there is not_found.", Need: all(needSuspend, needKeyed), Run: suspendTwice},
		{Name: "SnapshotIsApart", Rule: "A snapshot is the files of a place at one moment; what is made of it shares nothing with the first place, nor with its environment and secrets.", Need: all(needSnapshots, needKeyed, needShell), Run: snapshotApart},
		{Name: "SnapshotHasTheVolumes", Rule: "A snapshot has what lies in the volumes of a place: its workdir, where its root is read-only; a place that declares no snapshots refuses one.", Need: all(needSnapshots, needKeyed, needHardening), Run: snapshotVolumes},
		{Name: "SnapshotsAreListed", Rule: "Snapshots are listed until they are removed, which is idempotent; their places stay; a missing one is not_found; an id is used once.", Need: all(needSnapshots, needKeyed), Run: snapshotList},
	}
}

func needSuspend(c spec.Caps) string {
	if !c.Suspend {
		return "suspend"
	}
	return ""
}

func needSnapshots(c spec.Caps) string {
	if !c.Snapshots {
		return "snapshots"
	}
	return ""
}

func needHardening(c spec.Caps) string {
	if !c.Hardening {
		return "hardening"
	}
	return ""
}

func suspendGoesOn(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	sb := e.Provision(ctx, t, s)
	var out bytes.Buffer
	const most = 3000
	p, err := sb.Start(ctx, &spec.Command{Args: berth.Shell(fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo $i; i=$((i+1)); done; read x; echo $x", most))}, berth.Stdio{Stdin: strings.NewReader("end\n"), Stdout: &out})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	if err := sb.Suspend(ctx); err != nil {
		t.Fatalf("suspend: %v", err)
	}
	if state := stateOf(ctx, t, e.Open(t), s.Key); state != spec.StatePaused {
		t.Errorf("it is listed as %s; want paused", state)
	}
	asked, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	if err := sb.Ping(asked); err == nil {
		t.Errorf("a suspended place answers")
	}
	cancel()
	if err := berth.New(e.Open(t), berth.Spec{Key: s.Key}, berth.ProvisionOptions{}).Resume(ctx); err != nil {
		t.Fatalf("resume: %v", err)
	}
	var want strings.Builder
	for i := range most {
		fmt.Fprintln(&want, i)
	}
	exit, err := p.Wait(ctx)
	if err != nil || exit.Code != 0 || out.String() != want.String()+"end\n" {
		t.Errorf("it ended with %v, %v and wrote %d bytes; want 0, and all %d", exit, err, out.Len(), want.Len()+4)
	}
}

// stateOf is the state in which a place is listed; "" if it is not.
func stateOf(ctx context.Context, t T, d driver.Driver, key spec.Key) spec.State {
	t.Helper()
	owned, err := d.Owned(ctx)
	if err != nil {
		t.Fatalf("owned: %v", err)
	}
	for _, o := range owned {
		if o.Key == key {
			return o.State
		}
	}
	return ""
}

func suspendTwice(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	sb := e.Provision(ctx, t, s)
	if err := sb.Resume(ctx); err != nil {
		t.Errorf("resume of a running one: %v", err)
	}
	for range 2 {
		if err := sb.Suspend(ctx); err != nil {
			t.Fatalf("suspend: %v", err)
		}
	}
	if err := e.Attach(ctx, t, s.Key).Ping(ctx); err != nil {
		t.Errorf("ping after an attach: %v", err)
	}
	if err := sb.Suspend(ctx); err != nil {
		t.Fatalf("suspend: %v", err)
	}
	if err := e.Driver.Reap(ctx, s.Key, driver.ReapOptions{}); err != nil {
		t.Errorf("reap of a suspended place: %v", err)
	}
	if state := stateOf(ctx, t, e.Driver, s.Key); state != "" {
		t.Errorf("it is %s after a reap", state)
	}
	suspender, ok := e.Driver.(driver.Suspender)
	if !ok {
		t.Fatalf("the driver declares suspend, and is no Suspender")
	}
	for what, err := range map[string]error{
		"suspend": suspender.Suspend(ctx, s.Key, driver.ReapOptions{}),
		"resume":  suspender.Resume(ctx, s.Key, driver.ReapOptions{}),
	} {
		wantError(t, what+" of what is gone", err, spec.ErrNotFound)
	}
}

// snapshot keeps the files of a place; the snapshot is removed after the case.
func (e *Env) snapshot(ctx context.Context, t T, sb *berth.Sandbox, o berth.SnapshotOptions) berth.Snapshot {
	t.Helper()
	snap, err := sb.Snapshot(ctx, o)
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	e.Cleanup(func(ctx context.Context) error {
		return berth.RemoveSnapshot(ctx, e.Driver, snap.ID, driver.ReapOptions{})
	})
	return snap
}

// restore makes a place of a snapshot, with a key of its own.
func (e *Env) restore(ctx context.Context, t T, id string, change func(*spec.Spec)) *berth.Sandbox {
	t.Helper()
	s := e.Keyed()
	s.Image, s.Build = "", nil
	change(&s)
	sb, err := berth.Restore(ctx, e.Open(t), id, s, berth.ProvisionOptions{})
	if err != nil {
		t.Fatalf("restore: %v", err)
	}
	e.Cleanup(sb.Close)
	return sb
}

// wantFile complains if a file does not hold text; "": if it is there.
func wantFile(ctx context.Context, t T, sb *berth.Sandbox, name, text string) {
	t.Helper()
	data, err := sb.Files().ReadFile(ctx, name)
	switch {
	case text == "":
		wantError(t, name, err, spec.ErrFileNotFound)
	case err != nil || string(data) != text:
		t.Errorf("%s holds %.80q, %v; want %q", name, data, err, text)
	}
}

func put(ctx context.Context, t T, sb *berth.Sandbox, name, text string) {
	t.Helper()
	if err := sb.Files().WriteFile(ctx, name, []byte(text), files.WriteOptions{}); err != nil {
		t.Fatalf("write: %v", err)
	}
}

func snapshotApart(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	secret := "conform-" + randomHex()
	s.Env = map[string]string{"CONFORM_TOKEN": secret}
	first := e.Provision(ctx, t, s)
	put(ctx, t, first, "f", "old")
	if _, err := first.Jobs("").Start(ctx, berth.Shell("sleep 300"), berth.JobOptions{}); err != nil {
		t.Fatalf("job: %v", err)
	}
	snap := e.snapshot(ctx, t, first, berth.SnapshotOptions{})
	put(ctx, t, first, "f", "new")
	second := e.restore(ctx, t, snap.ID, func(s *spec.Spec) { s.Env = map[string]string{"CONFORM_OTHER": "1"} })
	wantFile(ctx, t, second, "f", "old")
	r := e.ExecIn(ctx, t, second, berth.Shell(`echo "${CONFORM_TOKEN-none}$CONFORM_OTHER"`), berth.ExecOptions{})
	wantText(t, "what the environments gave", r.Stdout, "none1\n")
	if jobs, err := second.Jobs("").List(ctx); err != nil || len(jobs) > 0 {
		t.Errorf("it has the jobs %+v, %v; want none", jobs, err)
	}
	put(ctx, t, second, "mine", "x")
	wantFile(ctx, t, first, "mine", "")
	wantFile(ctx, t, first, "f", "new")
	wantFile(ctx, t, e.restore(ctx, t, snap.ID, func(*spec.Spec) {}), "mine", "")
}

func snapshotVolumes(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	s.Hardening.ReadOnlyRoot = true
	first := e.Provision(ctx, t, s)
	put(ctx, t, first, "d/f", "kept")
	if caps, err := first.Caps(ctx); err != nil || !caps.Snapshots {
		_, refused := first.Snapshot(ctx, berth.SnapshotOptions{})
		wantError(t, "a snapshot where the place declares none", refused, spec.ErrUnsupported)
		return
	}
	snap := e.snapshot(ctx, t, first, berth.SnapshotOptions{})
	second := e.restore(ctx, t, snap.ID, func(s *spec.Spec) { s.Hardening.ReadOnlyRoot = true })
	wantFile(ctx, t, second, "d/f", "kept")
	put(ctx, t, second, "d/g", "and it can be written")
	wantFile(ctx, t, first, "d/g", "")
}

func snapshotList(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	sb := e.Provision(ctx, t, s)
	put(ctx, t, sb, "f", "kept")
	id := "conform-" + randomHex()
	snap := e.snapshot(ctx, t, sb, berth.SnapshotOptions{ID: id})
	if snap.ID != id || snap.Key != s.Key || snap.Backend != e.Driver.Name() || snap.Created.IsZero() {
		t.Errorf("snapshot %+v", snap)
	}
	listed := func() bool {
		list, err := berth.Snapshots(ctx, e.Open(t))
		if err != nil {
			t.Errorf("list: %v", err)
		}
		for _, one := range list {
			if one.ID == id {
				return true
			}
		}
		return false
	}
	if !listed() {
		t.Errorf("the snapshot is not listed")
	}
	_, err := sb.Snapshot(ctx, berth.SnapshotOptions{ID: id})
	wantError(t, "another snapshot of this id", err, spec.ErrExists)
	_, err = berth.Restore(ctx, e.Driver, id, berth.Spec{Key: s.Key}, berth.ProvisionOptions{})
	wantError(t, "restore to a key that is taken", err, spec.ErrExists)
	second := e.restore(ctx, t, id, func(*spec.Spec) {})
	for range 2 {
		if err := berth.RemoveSnapshot(ctx, e.Driver, id, driver.ReapOptions{}); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	if listed() {
		t.Errorf("the snapshot is listed after its removal")
	}
	wantFile(ctx, t, second, "f", "kept")
	_, err = berth.Restore(ctx, e.Driver, id, berth.Spec{}, berth.ProvisionOptions{})
	wantError(t, "restore of a snapshot that is gone", err, spec.ErrNotFound)
}
