//go:build linux

package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/memfs"
	"github.com/berth-dev/berth/files/tree"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// wantNoSnapshot complains about images and helpers of snapshots of an owner.
func wantNoSnapshot(t *testing.T, owner string) {
	t.Helper()
	api, ctx := engine.Client(t), context.Background()
	images, err := api.ImageList(ctx, client.ImageListOptions{All: true, Filters: make(client.Filters).Add("label", "dev.berth.snapshot-owner="+owner)})
	if err != nil {
		t.Error(err)
	}
	for _, image := range images.Items {
		t.Errorf("image left: %v %s", image.RepoTags, image.ID)
	}
	helpers, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("name", "berth-snap-")})
	if err != nil || len(helpers.Items) > 0 {
		t.Errorf("helpers left: %+v (%v)", helpers.Items, err)
	}
}

// A snapshot holds all files of a place, those in its volumes too, with owners and modes,
// and nothing of what its spec gave it in confidence: neither its image nor what the engine
// knows of it has a secret, an owner or a key, and a place of it has no variable of the old
// one, no jobs, and no part of its fate.
func TestSnapshotHoldsFilesOnly(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*spec.Spec)
	}{
		{"writable root", func(*spec.Spec) {}},
		{"read-only root and a user", func(s *spec.Spec) {
			s.Hardening.ReadOnlyRoot, s.Hardening.User, s.Workdir = true, "1000:1000", "/home/me/work"
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, ctx := testOptions(t), testContext(t)
			t.Cleanup(func() { wantNoSnapshot(t, o.Owner) })
			s, api, d := busybox(t), engine.Client(t), newDriver(t, o)
			const secret = "not-to-be-seen-4711"
			s.Env = map[string]string{"TOKEN": secret, "PATH": "/bin:/" + secret}
			tt.change(&s)
			first := provision(t, d, s)
			sh := func(sb *berth.Sandbox, script string) string {
				t.Helper()
				r, err := sb.Exec(ctx, berth.Shell(script), berth.ExecOptions{})
				if err != nil || r.ExitCode != 0 {
					t.Errorf("%s: %+v, %v", script, r, err)
					return ""
				}
				return string(r.Stdout)
			}
			const state = `pwd; cat f d/g; stat -c '%a %u %g' . f d d/g /tmp; cat /tmp/t; id -u`
			sh(first, `mkdir -m 710 d; echo one >f; echo two >d/g; chmod 4755 d/g; echo three >/tmp/t; ln -s f l`)
			job, err := first.Jobs("").Start(ctx, []string{"sleep", "1000"}, berth.JobOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := sh(first, state)
			snap, err := first.Snapshot(ctx, berth.SnapshotOptions{ID: "s1"})
			if err != nil {
				t.Fatalf("snapshot: %v (%s)", err, spec.HintOf(err))
			}
			if snap.ID != "s1" || snap.Key != s.Key || snap.Backend != d.Name() || snap.Created.IsZero() || snap.SizeBytes <= 0 || snap.SizeBytes > 1<<20 {
				t.Errorf("snapshot %+v", snap)
			}
			if jobs, err := first.Jobs("").List(ctx); err != nil || len(jobs) != 1 || jobs[0].ID != job.ID() {
				t.Errorf("the job of the place: %v", err)
			}
			if list, err := berth.Snapshots(ctx, newDriver(t, o)); err != nil || len(list) != 1 || list[0] != snap {
				t.Errorf("snapshots %+v, %v; want %+v", list, err, snap)
			}
			other := o
			other.Owner += "x"
			if list, err := berth.Snapshots(ctx, newDriver(t, other)); err != nil || len(list) != 0 {
				t.Errorf("another owner has %+v, %v", list, err)
			}
			_, err = berth.Restore(ctx, newDriver(t, other), "s1", berth.Spec{}, berth.ProvisionOptions{})
			wantIs(t, "restore by another owner", err, spec.ErrNotFound)
			_, err = first.Snapshot(ctx, berth.SnapshotOptions{ID: "s1"})
			wantIs(t, "another of this name", err, spec.ErrExists)
			wantImageWithout(t, api, "s1", secret, o.Owner)

			again := s
			again.Key, again.Image, again.Env, again.Workdir = "k2", "", map[string]string{"OTHER": "yes"}, ""
			second, err := berth.Restore(ctx, newDriver(t, o), "s1", again, berth.ProvisionOptions{})
			if err != nil {
				t.Fatalf("restore: %v (%s)", err, spec.HintOf(err))
			}
			t.Cleanup(func() { _ = second.Destroy(context.Background()) })
			if got := sh(second, state); got != want {
				t.Errorf("restored: %q; want %q", got, want)
			}
			if env := sh(second, "env"); strings.Contains(env, secret) || strings.Contains(env, "TOKEN") || !strings.Contains(env, "OTHER=yes") || !strings.Contains(env, "PATH=") {
				t.Errorf("its environment is %q", env)
			}
			if jobs, err := second.Jobs("").List(ctx); err != nil || len(jobs) != 0 {
				t.Errorf("its jobs: %+v, %v; want none", jobs, err)
			}
			sh(second, "echo other >f")
			sh(first, "echo new >n")
			if _, err := second.Files().Stat(ctx, "n", files.StatOptions{}); !errors.Is(err, spec.ErrFileNotFound) {
				t.Errorf("a later file of the first: %v", err)
			}
			if got := sh(first, "cat f"); got != "one\n" {
				t.Errorf("the first has %q", got)
			}
			_, err = berth.Restore(ctx, d, "s1", again, berth.ProvisionOptions{})
			wantIs(t, "restore to a key that is taken", err, spec.ErrExists)
			again.Image = s.Image
			_, err = berth.Provision(ctx, d, again)
			wantIs(t, "provision with the first image", err, spec.ErrSpecMismatch)
			if err == nil || !strings.Contains(err.Error(), ":s1") {
				t.Errorf("%v; want the snapshot named", err)
			}
			// It is in use, and goes with the place.
			for range 2 {
				if err := berth.RemoveSnapshot(ctx, d, "s1", berth.ReapOptions{}); err != nil {
					t.Errorf("remove: %v", err)
				}
			}
			if list, err := berth.Snapshots(ctx, d); err != nil || len(list) != 0 {
				t.Errorf("snapshots: %+v, %v; want none", list, err)
			}
			_, err = berth.Restore(ctx, d, "s1", berth.Spec{Key: "k3"}, berth.ProvisionOptions{})
			wantIs(t, "restore of what was removed", err, spec.ErrNotFound)
			if got := sh(second, "cat f"); got != "other\n" {
				t.Errorf("after the removal: %q", got)
			}
			if err := second.Destroy(ctx); err != nil {
				t.Errorf("destroy: %v", err)
			}
			wantNoSnapshot(t, o.Owner)
		})
	}
}

// wantImageWithout complains of a secret, or of labels that make a container ours, in the
// image of a snapshot.
func wantImageWithout(t *testing.T, api *client.Client, id, secret, owner string) {
	t.Helper()
	ctx := context.Background()
	images, err := api.ImageList(ctx, client.ImageListOptions{Filters: make(client.Filters).Add("label", "dev.berth.snapshot="+id).Add("label", "dev.berth.snapshot-owner="+owner)})
	if err != nil || len(images.Items) != 1 {
		t.Fatalf("images: %+v, %v", images.Items, err)
	}
	image, err := api.ImageInspect(ctx, images.Items[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(image.Config.Env, func(e string) bool { return strings.Contains(e, secret) }) {
		t.Errorf("the image's environment is %q", image.Config.Env)
	}
	for _, name := range []string{"dev.berth.owner", "dev.berth.key", "dev.berth.helper", "dev.berth.spec"} {
		if v := image.Config.Labels[name]; v != "" {
			t.Errorf("the image has the label %s=%s", name, v)
		}
	}
	history, err := api.ImageHistory(ctx, images.Items[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range history.Items {
		if strings.Contains(layer.CreatedBy, secret) {
			t.Errorf("the image's history says %q", layer.CreatedBy)
		}
	}
}

// A stopped and a suspended place can be kept, and are as they were afterwards; nothing is
// made where something cannot be kept, or of the place of another owner; a fork leaves no
// snapshot.
func TestSnapshotOfAnyState(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	t.Cleanup(func() { wantNoSnapshot(t, o.Owner) })
	s, d := busybox(t), newDriver(t, o)
	sb := provision(t, d, s)
	r, err := sb.Exec(ctx, berth.Shell("printf x >f; mkdir d; ln f d/h; ln -s ../f d/l; ln d/l d/m; mkfifo p; ln p q; ln -s /workspace /tmp/w; ln -s /etc /tmp/out"), berth.ExecOptions{})
	if err != nil || r.ExitCode != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	state := func() spec.State {
		owned, err := d.Owned(ctx)
		if err != nil || len(owned) != 1 {
			t.Fatalf("owned: %+v, %v", owned, err)
		}
		return owned[0].State
	}
	take := func(want spec.State) {
		t.Helper()
		snap, err := berth.New(newDriver(t, o), berth.Spec{Key: s.Key}, berth.ProvisionOptions{}).Snapshot(ctx, berth.SnapshotOptions{})
		if err != nil || state() != want {
			t.Fatalf("snapshot: %v, and the place is %s; want it %s", err, state(), want)
		}
		if err := berth.RemoveSnapshot(ctx, d, snap.ID, berth.ReapOptions{}); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	forked, err := sb.Fork(ctx, berth.Spec{}, berth.ProvisionOptions{})
	if err != nil {
		t.Fatalf("fork: %v", err)
	}
	if data, err := forked.Files().ReadFile(ctx, "f"); err != nil || string(data) != "x" {
		t.Errorf("the fork has %q, %v", data, err)
	}
	if err := forked.Destroy(ctx); err != nil {
		t.Errorf("destroy the fork: %v", err)
	}
	if err := sb.Suspend(ctx); err != nil {
		t.Fatal(err)
	}
	take(spec.StatePaused)
	if err := d.(driver.Stopper).Stop(ctx, s.Key, driver.ReapOptions{}); err != nil {
		t.Fatal(err)
	}
	take(spec.StateStopped)
	wantExportOfStopped(t, d, s.Key)
	other := o
	other.Owner += "x"
	_, err = berth.New(newDriver(t, other), berth.Spec{Key: s.Key}, berth.ProvisionOptions{}).Snapshot(ctx, berth.SnapshotOptions{})
	wantIs(t, "snapshot by another owner", err, spec.ErrNotFound)
	_, err = d.(driver.Snapshotter).Snapshot(ctx, s.Key, driver.SnapshotOptions{ID: "a/b"})
	wantIs(t, "a wrong id", err, spec.ErrInvalid)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := d.(driver.Snapshotter).Snapshot(canceled, s.Key, driver.SnapshotOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// wantExportOfStopped wants the files of a place that does not run, checked as those of one
// that does, and the place left as it is.
func wantExportOfStopped(t *testing.T, d driver.Driver, key spec.Key) {
	t.Helper()
	ctx := testContext(t)
	for _, dir := range []string{"", "/workspace", "/tmp/w", "."} {
		var out bytes.Buffer
		stats, err := berth.ExportStopped(ctx, d, key, dir, &out, tree.ExportOptions{}, berth.ReapOptions{})
		if err != nil || stats.Files != 2 || stats.Dirs != 1 || stats.Links != 2 || stats.Skipped != 2 || stats.Bytes != 2 {
			t.Errorf("export of %q: %+v, %v", dir, stats, err)
		}
		back := memfs.New("/")
		if got, err := tree.Import(ctx, back, "/", &out, tree.ImportOptions{}); err != nil || got.Files != 2 {
			t.Errorf("import of what was exported: %+v, %v", got, err)
		}
		if data, err := files.ReadFile(ctx, back, "/d/h", 10); err != nil || string(data) != "x" {
			t.Errorf("d/h holds %q, %v", data, err)
		}
	}
	for dir, want := range map[string]error{"f": spec.ErrNotDirectory, "none": spec.ErrFileNotFound, "/tmp": spec.ErrInvalid} {
		_, err := berth.ExportStopped(ctx, d, key, dir, io.Discard, tree.ExportOptions{}, berth.ReapOptions{})
		wantIs(t, "export of "+dir, err, want)
	}
	_, err := berth.ExportStopped(ctx, d, "none", "", io.Discard, tree.ExportOptions{}, berth.ReapOptions{})
	wantIs(t, "export of no place", err, spec.ErrNotFound)
	owned, err := d.Owned(ctx)
	if err != nil || len(owned) != 1 || owned[0].State != spec.StateStopped {
		t.Errorf("owned: %+v, %v; want it stopped", owned, err)
	}
}

// What a place has removed from a volume of its own stays away in what is restored, where its
// image has it; a volume that the image declares cannot be kept, and is refused.
func TestSnapshotOfVolumes(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	t.Cleanup(func() { wantNoSnapshot(t, o.Owner) })
	s, d := busybox(t), newDriver(t, o)
	s.Hardening.ReadOnlyRoot = true
	s.Image = withFiles(t, s.Image, "berth-test/files:1", "", "/workspace/removed", "/workspace/d/kept", "/tmp/removed")
	sb := provision(t, d, s)
	sh(t, sb, `rm removed /tmp/removed; chmod 750 d; mkdir e dev proc; ln -s /etc e/l; mkfifo -m 620 dev/p; echo x >dev/x; echo y >proc/y
chmod 4711 dev/x; ln proc/y e/y; ln -s dangling "a
b"; chown -h 7:8 e/l dev/p; chown 9:10 d/kept; chown 11 dev; echo z >/tmp/x; chown 12:13 /tmp/x`)
	snap, err := sb.Snapshot(ctx, berth.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const state = "find . /tmp | sort; find . /tmp -exec stat -c '%n %F %a %u:%g %h' {} + | sort; cat dev/x e/y /tmp/x"
	want := sh(t, sb, state)
	again := s
	again.Key, again.Image = "k2", ""
	restored, err := berth.Restore(ctx, d, snap.ID, again, berth.ProvisionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := sh(t, restored, state); got != want {
		t.Errorf("restored: %q; want %q", got, want)
	}
	if err := errors.Join(restored.Destroy(ctx), sb.Destroy(ctx), berth.RemoveSnapshot(ctx, d, snap.ID, berth.ReapOptions{})); err != nil {
		t.Error(err)
	}
	s.Hardening.ReadOnlyRoot = false
	s.Image = withFiles(t, s.Image, "berth-test/files:2", "VOLUME /data", "/data/seed")
	_, err = provision(t, d, s).Snapshot(ctx, berth.SnapshotOptions{})
	wantIs(t, "snapshot with a declared volume", err, spec.ErrUnsupported)
	if err == nil || !strings.Contains(err.Error(), "/data") {
		t.Errorf("%v; want the volume named", err)
	}
}

// A strict place can be kept, and what is restored of it is strict again. What somebody has
// put into memory is refused, also where the engine has made that of itself.
func TestSnapshotOfStrict(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	t.Cleanup(func() { wantNoSnapshot(t, o.Owner) })
	s, d := busybox(t), newDriver(t, o)
	s.Isolation = spec.IsolationStrict
	sb := provision(t, d, s)
	sh(t, sb, "mkdir -m 700 d; echo one >d/f")
	const state = "find . | sort; stat -c '%a %u:%g' . d d/f; cat d/f; id"
	want := sh(t, sb, state)
	snap, err := sb.Snapshot(ctx, berth.SnapshotOptions{})
	if err != nil {
		t.Fatalf("%v (%s)", err, spec.HintOf(err))
	}
	for _, dir := range []string{"/tmp", "/var/tmp", "/run"} {
		if sh(t, sb, "mkdir -p "+dir+"/x 2>/dev/null && echo x >"+dir+"/x/f && echo made || true") != "made" {
			continue // the root is read-only there
		}
		_, err := sb.Snapshot(ctx, berth.SnapshotOptions{})
		wantIs(t, "with a file in "+dir, err, spec.ErrUnsupported)
		sh(t, sb, "rm -r "+dir+"/x")
	}
	if err := sb.Destroy(ctx); err != nil {
		t.Error(err)
	}
	s.Key, s.Image = "k2", ""
	restored, err := berth.Restore(ctx, d, snap.ID, s, berth.ProvisionOptions{})
	if err != nil {
		t.Fatalf("%v (%s)", err, spec.HintOf(err))
	}
	if got := sh(t, restored, state); got != want {
		t.Errorf("restored: %q; want %q", got, want)
	}
	if err := errors.Join(restored.Destroy(ctx), berth.RemoveSnapshot(ctx, d, snap.ID, berth.ReapOptions{})); err != nil {
		t.Error(err)
	}
}

// withFiles returns an image that is another one with files, and with a change.
func withFiles(t *testing.T, image, name, change string, names ...string) string {
	t.Helper()
	ctx, api := testContext(t), engine.Client(t)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, file := range names {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	c, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{Config: &container.Config{Image: image, Cmd: []string{"true"}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.CopyToContainer(ctx, c.ID, client.CopyToContainerOptions{DestinationPath: "/", Content: &archive})
	if err == nil {
		o := client.ContainerCommitOptions{Reference: name, Config: &container.Config{}}
		if change != "" {
			o.Changes = []string{change} // which any engine takes, as it may not a configuration
		}
		_, err = api.ContainerCommit(ctx, c.ID, o)
	}
	if _, removed := api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true}); err != nil || removed != nil {
		t.Fatal(err, removed)
	}
	t.Cleanup(func() { _, _ = api.ImageRemove(context.Background(), name, client.ImageRemoveOptions{}) })
	return name
}

// Of several who take a snapshot with one id at one moment one succeeds, and nothing is left
// of the others.
func TestOneSnapshotOfAnID(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	t.Cleanup(func() { wantNoSnapshot(t, o.Owner) })
	d := newDriver(t, o)
	errs := make([]error, 3)
	var taking sync.WaitGroup
	for i := range errs {
		s := busybox(t)
		s.Key = spec.Key(fmt.Sprint("k", i))
		sb := provision(t, d, s)
		taking.Go(func() { _, errs[i] = sb.Snapshot(ctx, berth.SnapshotOptions{ID: "one"}) })
	}
	taking.Wait()
	taken := 0
	for _, err := range errs {
		if err == nil {
			taken++
		} else {
			wantIs(t, "another of this id", err, spec.ErrExists)
		}
	}
	if list, err := berth.Snapshots(ctx, d); taken != 1 || err != nil || len(list) != 1 {
		t.Errorf("%d were taken, %+v are there (%v); want one", taken, list, err)
	}
	if err := berth.RemoveSnapshot(ctx, d, "one", berth.ReapOptions{}); err != nil {
		t.Error(err)
	}
}

// Several snapshots of one place at one moment, of several clients, are all taken, one after
// the other, and the place is afterwards as it was, running or suspended. Of those that are
// under way while somebody uses the place each is whole or says that it is not.
func TestSnapshotsOfOnePlaceAtOnce(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	t.Cleanup(func() { wantNoSnapshot(t, o.Owner) })
	s, d := busybox(t), newDriver(t, o)
	sb := provision(t, d, s)
	state := func() spec.State {
		owned, err := d.Owned(ctx)
		if err != nil || len(owned) != 1 {
			t.Fatalf("owned: %+v, %v", owned, err)
		}
		return owned[0].State
	}
	atOnce := func(want spec.State, may error, drivers ...driver.Driver) {
		t.Helper()
		var taking sync.WaitGroup
		for i := range 4 {
			taking.Go(func() {
				snap, err := drivers[i%len(drivers)].(driver.Snapshotter).Snapshot(ctx, s.Key, driver.SnapshotOptions{})
				if err != nil && (may == nil || !errors.Is(err, may)) {
					t.Errorf("snapshot %d: %v (%s)", i, err, spec.HintOf(err))
				}
				if err == nil {
					if err := berth.RemoveSnapshot(ctx, d, snap.ID, berth.ReapOptions{}); err != nil {
						t.Errorf("remove: %v", err)
					}
				}
			})
		}
		taking.Wait()
		if got := state(); got != want {
			t.Errorf("it is %s; want it %s", got, want)
		}
	}
	other, third := newDriver(t, o), newDriver(t, o)
	atOnce(spec.StateRunning, nil, d, other, third)
	if err := sb.Suspend(ctx); err != nil {
		t.Fatal(err)
	}
	atOnce(spec.StatePaused, nil, d, other, third)
	if err := sb.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	using, stop := context.WithCancel(ctx)
	used := make(chan struct{})
	go func() {
		defer close(used)
		for using.Err() == nil {
			session, err := d.Attach(using, s.Key, driver.AttachOptions{})
			if err == nil {
				_ = session.Close(using)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	atOnce(spec.StateRunning, spec.ErrUnavailable, d)
	stop()
	<-used
	changed := s
	changed.Workdir = "/another"
	for _, tt := range []struct {
		name string
		do   func() error
		err  error
		want spec.State
	}{
		{"it is suspended", func() error { return other.(driver.Suspender).Suspend(ctx, s.Key, driver.ReapOptions{}) }, nil, spec.StatePaused},
		{"it is resumed", func() error { return other.(driver.Suspender).Resume(ctx, s.Key, driver.ReapOptions{}) }, nil, spec.StateRunning},
		{"another is asked for", func() error { _, err := berth.Provision(ctx, other, changed); return err }, spec.ErrSpecMismatch, spec.StateRunning},
	} {
		if err := sb.Resume(ctx); err != nil {
			t.Fatal(err)
		}
		_, err := d.(driver.Snapshotter).Snapshot(ctx, s.Key, driver.SnapshotOptions{Progress: func(spec.Progress) {
			if err := tt.do(); !errors.Is(err, tt.err) {
				t.Errorf("%s meanwhile: %v; want %v", tt.name, err, tt.err)
			}
		}})
		wantIs(t, "a snapshot while "+tt.name, err, spec.ErrUnavailable)
		if got := state(); got != tt.want {
			t.Errorf("%s meanwhile, and it is %s; want it %s", tt.name, got, tt.want)
		}
	}
}

// A place whose snapshot was cut off with its client can be kept by another one, which takes
// over as the first shows no sign of life.
func TestSnapshotTakesOver(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	t.Cleanup(func() { wantNoSnapshot(t, o.Owner) })
	s, d, api := busybox(t), newDriver(t, o), engine.Client(t)
	sb := provision(t, d, s)
	_, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name:   "berth-snap-of-" + sb.ID(),
		Config: &container.Config{Image: s.Image, Cmd: []string{"true"}, Labels: map[string]string{"dev.berth.snapshot-owner": o.Owner}},
	})
	if err != nil {
		t.Fatal(err)
	}
	brief, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := sb.Snapshot(brief, berth.SnapshotOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the other may live: %v; want the context's error", err)
	}
	snap, err := sb.Snapshot(ctx, berth.SnapshotOptions{})
	if err != nil {
		t.Fatalf("%v (%s)", err, spec.HintOf(err))
	}
	if err := berth.RemoveSnapshot(ctx, d, snap.ID, berth.ReapOptions{}); err != nil {
		t.Error(err)
	}
}
