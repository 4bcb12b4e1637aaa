//go:build linux

package killtest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// Clients is what Run kills.
type Clients struct {
	Driver driver.Driver
	// Spec means a keyed place that is empty. The caller removes it.
	Spec spec.Spec
	// Command returns a command that calls Work with Spec, prefix and mark.
	Command func(prefix, mark string) *exec.Cmd
	Rounds  int
}

// Run kills a client in each round, at a random moment. It fails t unless whoever comes
// next finds every job that the client was told of, runs none twice by asking again,
// collects each, and hears of its end once; no file is torn, and nothing is left over.
func (c Clients) Run(t *testing.T) {
	t.Helper()
	r := &run{Clients: c, mark: fmt.Sprintf("%d-%d", os.Getpid(), rand.Uint64()), heard: map[string]int{}, keys: map[string]bool{}}
	for round := range c.Rounds {
		prefix := fmt.Sprint("r", round)
		said := r.kill(t, prefix, round%2 == 0)
		session := r.provision(t)
		r.known(t, session, said)
		r.collect(t, session, prefix, len(said)+2) // one more may run that it was not told of
		r.hear(t, session)
		r.whole(t, session)
		if err := session.Close(within(t)); err != nil {
			t.Errorf("close: %v", err)
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	for id, n := range r.heard {
		if n != 1 {
			t.Errorf("%s was told of %d times", id, n)
		}
	}
	session := r.provision(t)
	ran := strings.Fields(output(t, session, "cat ran"))
	slices.Sort(ran)
	different := slices.Compact(slices.Clone(ran))
	if want := len(r.keys); len(ran) != want || len(different) != want {
		t.Errorf("%d jobs ran, %d of them different; want %d", len(ran), len(different), want)
	}
	t.Logf("%d clients were killed beside %d jobs", c.Rounds, len(ran))
	if err := session.Close(within(t)); err != nil {
		t.Errorf("close: %v", err)
	}
	if left := marked(r.mark); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

type run struct {
	Clients
	mark  string
	heard map[string]int // the ids of jobs, and how often their ends were told
	keys  map[string]bool
}

func (r *run) provision(t *testing.T) driver.Session {
	t.Helper()
	session, err := r.Driver.Provision(within(t), &r.Spec, driver.ProvisionOptions{})
	if err != nil {
		t.Fatalf("provision: %v", err)
	}
	return session
}

// kill lets a client work for a moment, which begins with it or, where it is to be busy,
// when it has started a job; kills it, and returns the ids that it was told.
func (r *run) kill(t *testing.T, prefix string, busy bool) []string {
	t.Helper()
	cmd := r.Command(prefix, r.mark)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	var first []byte
	if busy {
		first, _ = said.ReadBytes('\n')
	}
	time.Sleep(time.Duration(rand.Int64N(int64(600 * time.Millisecond))))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(said)
	_ = cmd.Wait()
	ids := strings.Fields(string(first) + string(rest))
	if errs.Len() > 0 || busy && len(ids) == 0 {
		t.Fatalf("the client says %q and %q", ids, errs.String())
	}
	return ids
}

// known wants every job to be listed that the client was told of.
func (r *run) known(t *testing.T, s driver.Session, said []string) {
	t.Helper()
	jobs, err := s.(driver.Jobber).Jobs(within(t), spec.JobQuery{Owner: owner})
	if err != nil {
		t.Errorf("list: %v", err)
	}
	for _, id := range said {
		if !slices.ContainsFunc(jobs, func(j spec.Job) bool { return j.ID == id }) {
			t.Errorf("%s is lost", id)
		}
	}
}

// collect starts the client's jobs again, under their keys, and collects each.
func (r *run) collect(t *testing.T, s driver.Session, prefix string, count int) {
	t.Helper()
	jobber := s.(driver.Jobber)
	one := func(key string) error {
		info, err := startJob(within(t), s, key, r.mark)
		if err == nil {
			info, err = jobber.WaitJob(within(t), owner, info.ID)
		}
		if err != nil || info.State != spec.JobExited || info.Exit.Code != 3 {
			return fmt.Errorf("%+v, %w", info, err)
		}
		log, err := jobber.OpenLog(within(t), owner, info.ID, spec.LogWindow{})
		if err != nil {
			return err
		}
		defer log.Close()
		if data, err := io.ReadAll(log); err != nil || string(data) != "begun\n"+key+" done\n" {
			return fmt.Errorf("log %q, %w", data, err)
		}
		return nil
	}
	var all sync.WaitGroup
	for n := range count {
		key := fmt.Sprintf("%s-%d", prefix, n)
		r.keys[key] = true
		all.Go(func() {
			if err := one(key); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		})
	}
	all.Wait()
}

// hear listens until all jobs have been told of, and a moment longer.
func (r *run) hear(t *testing.T, s driver.Session) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	told := make(chan string)
	done := make(chan error, 1)
	go func() {
		done <- s.(driver.Jobber).JobEvents(ctx, owner, func(e spec.JobEvent) error {
			told <- e.Job.ID
			return nil
		})
	}()
	for quiet := time.After(time.Hour); ; {
		if len(r.heard) == len(r.keys) {
			quiet = time.After(200 * time.Millisecond)
		}
		select {
		case id := <-told:
			r.heard[id]++
			continue
		case <-quiet:
			cancel()
			<-done
		case err := <-done:
			t.Errorf("told of %d jobs of %d: %v", len(r.heard), len(r.keys), err)
		}
		return
	}
}

// whole wants the file that clients replace to be one of its versions, and no other file
// beside it.
func (r *run) whole(t *testing.T, s driver.Session) {
	t.Helper()
	names := fileName
	f, err := s.Files().Open(within(t), fileName, files.OpenOptions{})
	switch {
	case spec.CodeOf(err) == spec.CodeFileNotFound:
		names = "" // no client has got so far
	case err != nil:
		t.Errorf("open: %v", err)
		return
	default:
		defer f.Close()
		data, err := io.ReadAll(f)
		line, _, _ := strings.Cut(string(data), "\n")
		if err != nil || string(data) != strings.Repeat(line+"\n", lines) {
			t.Errorf("the file is torn: %d bytes of %q, %v", len(data), line, err)
		}
	}
	want := strings.TrimSuffix("ran\n"+names, "\n")
	var got string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if got = output(t, s, "ls -A"); got == want {
			return
		}
	}
	t.Errorf("the workdir has %q, want %q", got, want)
}

// within bounds one step.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// output runs a script that must succeed and returns its output without the last newline.
func output(t *testing.T, s driver.Session, script string) string {
	t.Helper()
	var out bytes.Buffer
	p, err := s.Start(within(t), &spec.Command{Args: spec.Shell(script)}, driver.Stdio{Stdout: &out})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	if exit, err := p.Wait(within(t)); err != nil || !exit.Success() {
		t.Fatalf("%s: %+v, %v", script, exit, err)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// marked lists the processes of this machine, containers included, that carry mark.
func marked(mark string) (pids []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		env, err := os.ReadFile(name)
		if err == nil && strings.Contains("\x00"+string(env), "\x00"+markName+"="+mark+"\x00") {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}
