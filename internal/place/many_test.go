//go:build linux

package place_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/environ"
	"github.com/berth-dev/berth/internal/place"
	"github.com/berth-dev/berth/internal/place/remote"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

const (
	clients = 4
	each    = 8
)

// client is another process of the test: it provisions the place "many" many times at
// once, says which guests it met, and waits for its stdin to end.
func client(dir, exe string) int {
	guest := func(_ context.Context, l place.Launch) (place.Plan, error) {
		return place.Plan{Path: exe, Args: append([]string{reexecGuest}, l.Args...)}, nil
	}
	r := &place.Root{Dir: dir, Owner: "test", BaseEnv: environ.Base(os.Environ()), Guest: guest}
	var mu sync.Mutex
	var group sync.WaitGroup
	for range each {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
			defer cancel()
			conn, rec, err := r.Provision(ctx, keyed("many"), place.ProvisionOptions{})
			if err == nil {
				defer conn.Close()
				_, err = greet(ctx, conn, rec.ID)
			}
			mu.Lock()
			defer mu.Unlock()
			fmt.Println(rec.PID, rec.Fresh, err)
		})
	}
	group.Wait()
	return 0
}

// TestConverge defends: concurrent callers in several processes converge on one guest,
// which exactly one of them has made.
func TestConverge(t *testing.T) {
	r := newRoot(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var outs [clients]bytes.Buffer
	var cmds [clients]*exec.Cmd
	for i := range cmds {
		cmds[i] = exec.Command(exe, reexecClient, r.Dir, exe)
		cmds[i].Stdout, cmds[i].Stderr = &outs[i], &outs[i]
		if err := cmds[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	met := map[string]int{}
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Errorf("client %d: %v", i, err)
		}
		for _, line := range strings.Split(strings.TrimSpace(outs[i].String()), "\n") {
			met[line]++
		}
	}
	_, rec, err := r.Attach(within(t), "many")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		fmt.Sprintf("%d true <nil>", rec.PID):  1,
		fmt.Sprintf("%d false <nil>", rec.PID): clients*each - 1,
	}
	if diff := cmp.Diff(want, met); diff != "" {
		t.Error(diff)
	}
}

// farSide runs the far side, sends it a request, and returns its answer and its streams.
func farSide(t *testing.T, dir, verb string, req remote.Request) (*remote.Answer, io.ReadWriteCloser, error) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", reexecFar, verb, "--dir", dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	if err := wire.WriteMessage(in, req); err != nil {
		t.Fatal(err)
	}
	answer, err := remote.ReadAnswer(out)
	return answer, duplex{out, in}, err
}

type duplex struct {
	io.ReadCloser
	in io.WriteCloser
}

func (d duplex) Write(p []byte) (int, error) { return d.in.Write(p) }

func (d duplex) Close() error {
	d.in.Close()
	return d.ReadCloser.Close()
}

// TestFarSide defends: the far side makes, finds, lists, stops and reaps places, relays to
// their guests, and answers errors with their code; a place outlives its relay.
func TestFarSide(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "far")
	ctx := within(t)
	provision := remote.Request{Owner: "o", Mode: remote.ModeProvision}
	s := keyed("k")
	s.Env = map[string]string{"BYTES": "\xff\x01"}
	provision.SetSpec(s)
	text, err := json.Marshal(provision)
	if err != nil {
		t.Fatal(err)
	}
	var received remote.Request
	if err := json.Unmarshal(text, &received); err != nil {
		t.Fatal(err)
	}
	if got, err := received.TakeSpec(); err != nil || got.Env["BYTES"] != s.Env["BYTES"] {
		t.Errorf("%+v, %v: the environment is not what was sent", got, err)
	}
	answer, stream, err := farSide(t, dir, remote.VerbConnect, provision)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = farSide(t, dir, remote.VerbReap, remote.Request{Owner: "o", Key: "k"}) })
	rec := *answer.Record
	if rec.Key != "k" || !exists(rec) {
		t.Fatalf("record: %+v", rec)
	}
	for _, mode := range []remote.Request{{Mode: remote.ModeAttach, Key: "k"}, {Mode: remote.ModeDial, ID: rec.ID}} {
		mode.Owner = "o"
		_, stream, err := farSide(t, dir, remote.VerbConnect, mode)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := greetStream(ctx, stream, rec.ID); err != nil {
			t.Errorf("%s: %v", mode.Mode, err)
		}
		stream.Close()
	}
	if _, err := greetStream(ctx, stream, rec.ID); err != nil {
		t.Errorf("after provision: %v", err)
	}
	stream.Close()
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", rec.PID)) // root may look
	if !errors.Is(err, fs.ErrPermission) && (err != nil || bytes.Contains(env, []byte("BYTES="))) {
		t.Errorf("the guest was started with the environment of commands: %q, %v", env, err)
	}

	list := func() []spec.Owned {
		answer, _, err := farSide(t, dir, remote.VerbList, remote.Request{Owner: "o"})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Owned
	}
	if owned := list(); len(owned) != 1 || owned[0].State != spec.StateRunning {
		t.Errorf("owned: %+v", owned)
	}
	if _, _, err := farSide(t, dir, remote.VerbStop, remote.Request{Owner: "o", Key: "k"}); err != nil || exists(rec) {
		t.Errorf("stop: %v", err)
	}
	_, _, err = farSide(t, dir, remote.VerbConnect, remote.Request{Owner: "o", Mode: remote.ModeAttach, Key: "k"})
	wantCode(t, err, spec.CodeNotFound)
	if _, _, err := farSide(t, dir, remote.VerbReap, remote.Request{Owner: "o", Key: "k"}); err != nil {
		t.Error(err)
	}
	if owned := list(); len(owned) != 0 {
		t.Errorf("owned after reap: %+v", owned)
	}
	empty(t, &place.Root{Dir: dir})

	walled := remote.Request{Owner: "o", Mode: remote.ModeProvision}
	guard := keyed("k")
	guard.Isolation = spec.IsolationGuard
	walled.SetSpec(guard)
	_, _, err = farSide(t, dir, remote.VerbConnect, walled)
	wantCode(t, err, spec.CodeUnsupported)
}

func greetStream(ctx context.Context, stream io.ReadWriteCloser, id string) (*wire.GuestHello, error) {
	return wire.SendHello(ctx, stream, wire.HostHello{ID: id, Client: "test", Profile: wire.Local()})
}
