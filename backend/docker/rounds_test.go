//go:build linux

package docker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/docker"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/client"
)

const roundsVerb = "berth-docker-test-rounds"

// The places of the rounds: one that stays, and one that comes and goes.
const (
	lasting = spec.Key("lasting")
	passing = spec.Key("passing")
)

func roundsOptions(host, binary string) docker.Options {
	return docker.Options{Host: host, Owner: "rounds", Guest: guest.BinaryOptions{Path: binary}, ResumeWindow: time.Second, OrphanAfter: time.Second}
}

// toucher is the client that is killed. It does all that changes something, without a
// pause, and says of every command what it will run and what that came to.
func toucher(args []string) int {
	host, image, binary, prefix, snapshots := args[0], args[1], args[2], args[3], args[4] == "snapshots"
	ctx := context.Background()
	d, err := docker.New(roundsOptions(host, binary))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var side sync.WaitGroup
	side.Go(func() {
		for i := 0; ; i++ {
			s := spec.Spec{Image: image}
			if i%2 == 0 {
				s.Key = passing
			}
			if sb, err := berth.Provision(ctx, d, s); err == nil {
				_, _ = sb.Exec(ctx, []string{"true"}, berth.ExecOptions{})
				if snapshots && i%3 == 0 {
					_, _ = sb.Snapshot(ctx, berth.SnapshotOptions{})
				}
				_ = sb.Destroy(ctx)
			}
		}
	})
	for i := 0; ; {
		sb, err := berth.Provision(ctx, d, spec.Spec{Key: lasting, Image: image})
		if err != nil {
			time.Sleep(50 * time.Millisecond) // the engine is down
			continue
		}
		for err == nil {
			id := fmt.Sprint(prefix, "-", i)
			i++
			fmt.Println("ask", id)
			_, err = sb.Exec(ctx, []string{"sh", "-c", "echo " + id + " >> ran"}, berth.ExecOptions{Key: id})
			fmt.Println(outcome(err), id)
			if err == nil {
				err = sb.Files().WriteFile(ctx, "whole", []byte(strings.Repeat(id+"\n", 10_000)), files.WriteOptions{})
			}
		}
		// It is not closed: that would end the place.
	}
}

// outcome is the client's word for what an Exec came to.
func outcome(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, spec.ErrUnknownOutcome):
		return "unknown"
	}
	return "refused"
}

// rounds is what the test knows of the clients.
type rounds struct {
	engine *dockertest.Engine
	o      docker.Options
	d      driver.Driver
	image  string
	// snapshots says whether the clients take any.
	snapshots string
	// said is the last word about each command in the place that stays: ask, done,
	// unknown or refused; counts are those words over all rounds.
	said   map[string]string
	counts map[string]int
}

// The client or the engine is killed at a random moment while places are made, used,
// snapshot and ended. Whoever comes next finds the place that was to stay, each command
// run as often as its client was told, and no file torn; and once all is ended and pruned
// nothing is left on the engine.
func TestRoundsOfKilling(t *testing.T) {
	n, snapshots := 20, "none"
	if os.Getenv("BERTH_TEST_SOAK") != "" {
		// What a killed snapshot leaves can be pruned when it is a minute old.
		n, snapshots = 200, "snapshots"
	}
	e := privateEngine(t, "--live-restore")
	r := &rounds{engine: e, snapshots: snapshots, o: roundsOptions(e.Host(t), guestBinary(t)), image: e.Image(t, dockertest.Image{Kind: dockertest.Busybox}), said: map[string]string{}, counts: map[string]int{}}
	r.d = newDriver(t, r.o)
	// A client that is killed while it brings the guest would hold the others up for a minute.
	r.check(t)
	for round := range n {
		r.kill(t, fmt.Sprint("r", round), round%2 == 0, round%5 == 4)
		r.check(t)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	r.count()
	t.Logf("%d rounds; commands by what was said of them: %v", n, r.counts)
	if r.counts["done"] < n/2 {
		t.Errorf("%d commands were done in %d rounds: the rounds show nothing", r.counts["done"], n)
	}
	r.end(t)
}

// kill runs a client for a moment, which begins with it or, where it is to be busy, with
// its first command; in the course of it the engine may crash and come back. Then it kills
// the client.
func (r *rounds) kill(t *testing.T, prefix string, busy, engine bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], roundsVerb, r.o.Host, r.image, r.o.Guest.Path, prefix, r.snapshots)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	var first string
	if busy {
		first, _ = said.ReadString('\n')
	}
	text := make(chan string, 1)
	go func() {
		rest, _ := io.ReadAll(said)
		text <- first + string(rest)
	}()
	moment := func() { time.Sleep(rand.N(2 * time.Second)) }
	moment()
	if engine {
		r.engine.Crash(t)
		r.engine.Restart(t)
		moment()
	}
	_ = cmd.Process.Kill()
	lines := bufio.NewScanner(strings.NewReader(<-text))
	for lines.Scan() {
		if word, id, ok := strings.Cut(lines.Text(), " "); ok && strings.Contains(id, "-") {
			r.said[id] = word
		}
	}
	_ = cmd.Wait()
}

// check compares what was said of the commands with what has run, in the place that
// stays.
func (r *rounds) check(t *testing.T) {
	t.Helper()
	session, err := r.d.Provision(testContext(t), &spec.Spec{Key: lasting, Image: r.image}, driver.ProvisionOptions{})
	if err != nil && strings.Contains(spec.HintOf(err), "lost") {
		// It crashed while it started the place, and says so whenever it is to start it.
		t.Logf("the engine has lost the place: %v", err)
		if err := r.d.Reap(testContext(t), lasting, driver.ReapOptions{}); err != nil {
			t.Errorf("reap: %v", err)
		}
		r.count()
		return
	}
	if err != nil {
		t.Fatalf("provision: %v (hint: %s)", err, spec.HintOf(err))
	}
	if err := session.Close(testContext(t)); err != nil {
		t.Errorf("close: %v", err)
	}
	sb, err := berth.Attach(testContext(t), r.d, lasting)
	if err != nil {
		t.Fatalf("attach: %v", err)
	}
	defer func() {
		if err := sb.Close(testContext(t)); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	ran := map[string]int{}
	for id := range strings.FieldsSeq(sh(t, sb, "cat ran 2>/dev/null; true")) {
		ran[id]++
	}
	for id, word := range r.said {
		switch n := ran[id]; {
		case n > 1:
			t.Errorf("command %s ran %d times", id, n)
		case word == "done" && n != 1, word == "refused" && n != 0:
			t.Errorf("command %s was said to be %s, and ran %d times", id, word, n)
		}
		delete(ran, id)
	}
	for id := range ran {
		t.Errorf("command %s has run, and nobody asked", id)
	}
	if torn := sh(t, sb, "[ ! -e whole ] || { wc -l <whole; sort -u whole | wc -l; }"); torn != "" && torn != "10000\n1" {
		t.Errorf("the file is torn: lines, and different ones: %q", torn)
	}
}

// count forgets what was said, but for how much.
func (r *rounds) count() {
	for _, word := range r.said {
		r.counts[word]++
	}
	clear(r.said)
}

// end ends and prunes all, after a place was made of the last snapshot, and looks at what
// is left.
func (r *rounds) end(t *testing.T) {
	t.Helper()
	ctx := testContext(t)
	snapshots := r.d.(driver.Snapshotter)
	list, err := snapshots.Snapshots(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) > 0 {
		sb, err := berth.Restore(ctx, r.d, list[len(list)-1].ID, spec.Spec{Key: "restored"}, berth.ProvisionOptions{})
		if err != nil {
			t.Errorf("restore: %v", err)
		} else if got := sh(t, sb, "echo works"); got != "works" {
			t.Errorf("the restored place says %q", got)
		}
	}
	for _, s := range list {
		if err := snapshots.RemoveSnapshot(ctx, s.ID, driver.ReapOptions{}); err != nil {
			t.Errorf("remove snapshot: %v", err)
		}
	}
	owned, err := r.d.Owned(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, o := range owned {
		if err := r.d.Reap(ctx, o.Key, driver.ReapOptions{}); err != nil {
			t.Errorf("reap %s: %v", o.Key, err)
		}
	}
	api := r.engine.Client(t)
	var left []string
	r.ageSnapshots(t)
	// What is younger than a minute may be somebody's who lives.
	for deadline := time.Now().Add(100 * time.Second); ; time.Sleep(time.Second) {
		if _, err := r.d.(driver.Pruner).Prune(testContext(t), driver.ReapOptions{}); err != nil {
			t.Fatalf("prune: %v", err)
		}
		if left = leftOn(testContext(t), t, api, r.image); len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	if len(left) > 0 {
		t.Errorf("left on the engine: %q", left)
	}
}

// ageSnapshots does what pruning does an hour later, which is as long as a snapshot may
// take: it removes the containers through which some were to be made.
func (r *rounds) ageSnapshots(t *testing.T) {
	t.Helper()
	ctx, api := testContext(t), r.engine.Client(t)
	list, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("name", "^/berth-snap-")})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.Items {
		if _, err := api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}
}

// leftOn names all that an engine has that nobody but Berth has put there.
func leftOn(ctx context.Context, t *testing.T, api *client.Client, but string) []string {
	t.Helper()
	var left []string
	containers, err := api.ContainerList(ctx, client.ContainerListOptions{All: true})
	for _, c := range containers.Items {
		left = append(left, fmt.Sprint("container ", c.Names, c.State))
	}
	volumes, err2 := api.VolumeList(ctx, client.VolumeListOptions{})
	for _, v := range volumes.Items {
		left = append(left, "volume "+v.Name)
	}
	networks, err3 := api.NetworkList(ctx, client.NetworkListOptions{})
	for _, n := range networks.Items {
		if n.Name != "bridge" && n.Name != "host" && n.Name != "none" {
			left = append(left, "network "+n.Name)
		}
	}
	images, err4 := api.ImageList(ctx, client.ImageListOptions{All: true})
	for _, i := range images.Items {
		if len(i.RepoTags) != 1 || i.RepoTags[0] != but {
			left = append(left, fmt.Sprint("image ", i.ID, i.RepoTags))
		}
	}
	if err := errors.Join(err, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	return left
}
