package drivertest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// placeCases are about the life of a place.
func placeCases() []Case {
	return []Case{
		{Name: "CapsAreHonest", Rule: "A place declares what it enforces: within what its driver declares, and what its spec asks for.", Run: placeCaps},
		{Name: "CapsOfADriverHold", Rule: "What a driver declares of all of its places, each of them has.", Run: placeCapsHold},
		{Name: "UnsupportedIsRefused", Rule: "A spec that asks for what cannot be enforced is unsupported before anything is created.", Run: placeUnsupported},
		{Name: "InvalidSpecsCreateNothing", Rule: "A spec that makes no sense is refused before anything is created.", Run: placeInvalid},
		{Name: "StatusAndPing", Rule: "A live place says how it is.", Run: placeStatus},
		{Name: "DestroyIsIdempotentAndFinal", Rule: "Destroy removes and is idempotent; every call afterwards is not_found.", Run: placeDestroy},
		{Name: "CloseRemoves", Rule: "Close removes the place unless Persist; it is idempotent.", Need: needKeyed, Run: placeClose},
		{Name: "PersistStops", Rule: "With Persist, Close stops the place and Provision starts it again with its state; a backend that cannot refuses.", Need: needKeyed, Run: placePersist},
		{Name: "EphemeralIsListed", Rule: "A place without a key is listed as ephemeral, under a generated key.", Need: needKeyed, Own: true, Run: placeEphemeral},
		{Name: "EphemeralIsReaped", Rule: "A sandbox without a key is reaped after its last client is gone.", Need: needKeyed, Own: true, Run: placeOrphan},
		{Name: "TTLEndsThePlace", Rule: "Spec.TTL ends a place so long after its start, whoever uses it.", Need: needKeyed, Run: placeTTL},
		{Name: "IdleTimeoutEndsThePlace", Rule: "Spec.IdleTimeout ends a place once no client and no command has been there for so long.", Need: needKeyed, Run: placeIdle},
		{Name: "CommandsEndWithTheirClient", Rule: "Detach ends the commands of this session that have no key; the place stays.", Need: all(needKeyed, needShell), Run: placeDetach},
		{Name: "LazyStartIsShared", Rule: "The first use starts a place, concurrent first uses share one start.", Need: needCoreutils, Run: placeLazy},
		{Name: "FilesAndExecShareTheFilesystem", Rule: "Files and commands see one file system.", Need: needShell, Run: placeShared},
	}
}

func placeCaps(ctx context.Context, t T, e *Env) {
	probe, err := e.Driver.Probe(ctx)
	if err != nil {
		t.Fatalf("probe: %v", err)
	}
	c := e.Caps
	if c.Backend != e.Driver.Name() || probe.Backend != c.Backend {
		t.Errorf("the driver is %q, its probe says %q, its place %q", e.Driver.Name(), probe.Backend, c.Backend)
	}
	if c.OS == "" || c.Arch == "" {
		t.Errorf("the place does not know its platform: %q %q", c.OS, c.Arch)
	}
	if n := len(c.Isolation.List()); n != 1 {
		t.Errorf("the place enforces %d isolation levels (%s); want the one in force", n, c.Isolation)
	}
	if n := len(c.Network.List()); n != 1 {
		t.Errorf("the place enforces %d network policies (%s); want the one in force", n, c.Network)
	}
	if c.Isolation&^probe.Isolation != 0 || c.Network&^probe.Network != 0 {
		t.Errorf("the place has %s, %s; the driver only %s, %s", c.Isolation, c.Network, probe.Isolation, probe.Network)
	}
	if c.KillTree != spec.KillTreeConfirmed && c.KillTree != spec.KillTreeBestEffort {
		t.Errorf("kill tree %q; want confirmed or best_effort", c.KillTree)
	}
	if err := c.Check(&e.Options.Spec); err != nil {
		t.Errorf("the place does not declare what was asked for: %v", err)
	}
}

func placeCapsHold(ctx context.Context, t T, e *Env) {
	probe, err := e.Driver.Probe(ctx)
	if err != nil {
		t.Fatalf("probe: %v", err)
	}
	for _, what := range []struct {
		name            string
		declared, inUse bool
	}{
		{"native_programs", probe.NativePrograms, e.Caps.NativePrograms},
		{"resume", probe.Resume, e.Caps.Resume},
		{"jobs", probe.Jobs != spec.JobsNone, e.Caps.Jobs != spec.JobsNone},
		{"terminals", probe.Terminals, e.Caps.Terminals},
		{"watch", probe.Watch, e.Caps.Watch},
		{"trees", probe.Trees, e.Caps.Trees},
		{"ports", probe.Ports, e.Caps.Ports},
		{"events", probe.Events, e.Caps.Events},
		{"suspend", probe.Suspend, e.Caps.Suspend},
	} {
		if what.declared && !what.inUse {
			t.Errorf("%s: the driver declares it and the place does not have it", what.name)
		}
	}
}

// asks are specs, each of which asks for one thing.
func asks(base spec.Spec) map[string]spec.Spec {
	out := map[string]spec.Spec{}
	add := func(name string, change func(s *spec.Spec)) {
		s := *base.Clone()
		change(&s)
		out[name] = s
	}
	for _, level := range []spec.Isolation{spec.IsolationNone, spec.IsolationGuard, spec.IsolationJail, spec.IsolationStandard, spec.IsolationStrict} {
		add("isolation "+string(level), func(s *spec.Spec) { s.Isolation = level })
	}
	for _, policy := range []spec.Network{spec.NetworkNone, spec.NetworkLimited, spec.NetworkOpen} {
		add("network "+string(policy), func(s *spec.Spec) { s.Network = policy })
	}
	add("image", func(s *spec.Spec) { s.Image = "conform:none" })
	add("writable roots", func(s *spec.Spec) { s.WritableRoots = []string{"/tmp"} })
	add("hidden paths", func(s *spec.Spec) { s.HiddenPaths = []string{"/tmp/hidden"} })
	add("memory limit", func(s *spec.Spec) { s.Limits.MemoryBytes = 1 << 30 })
	add("pids limit", func(s *spec.Spec) { s.Limits.PIDs = 1000 })
	add("cpu limit", func(s *spec.Spec) { s.Limits.CPUMillis = 1000 })
	add("hardening", func(s *spec.Spec) { s.Hardening.ReadOnlyRoot = true })
	return out
}

func placeUnsupported(ctx context.Context, t T, e *Env) {
	probe, err := e.Driver.Probe(ctx)
	if err != nil {
		t.Fatalf("probe: %v", err)
	}
	refused := 0
	for name, s := range asks(e.Spec()) {
		if probe.Check(&s) == nil {
			continue
		}
		refused++
		if probe.Keyed {
			s.Key = e.Keyed().Key
		}
		sb, err := berth.Provision(ctx, e.Driver, s)
		if err == nil {
			e.Cleanup(sb.Close)
		}
		wantError(t, name, err, spec.ErrUnsupported)
		e.wantAbsent(ctx, t, s.Key)
	}
	t.Logf("refused %d kinds of requests", refused)
}

// wantAbsent wants no place with key; an empty key is none.
func (e *Env) wantAbsent(ctx context.Context, t T, key spec.Key) {
	t.Helper()
	if key == "" {
		return
	}
	if o, ok := e.owned(ctx, t, key); ok {
		t.Errorf("a place is there: %+v", o)
	}
	if sb, err := berth.Attach(ctx, e.Driver, key); err == nil {
		e.Cleanup(sb.Close)
		t.Errorf("attach found a place")
	} else if !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("attach: %v; want not_found", err)
	}
}

// owned finds key in the driver's listing.
func (e *Env) owned(ctx context.Context, t T, key spec.Key) (spec.Owned, bool) {
	t.Helper()
	list, err := e.Driver.Owned(ctx)
	if err != nil {
		t.Fatalf("owned: %v", err)
	}
	for _, o := range list {
		if o.Key == key {
			return o, true
		}
	}
	return spec.Owned{}, false
}

func placeInvalid(ctx context.Context, t T, e *Env) {
	for name, change := range map[string]func(s *spec.Spec){
		"a key with a slash":     func(s *spec.Spec) { s.Key = "a/b" },
		"a key that is a path":   func(s *spec.Spec) { s.Key = "../../etc" },
		"a relative workdir":     func(s *spec.Spec) { s.Workdir = "relative" },
		"a workdir under /proc":  func(s *spec.Spec) { s.Workdir = "/proc/self" },
		"an env name with =":     func(s *spec.Spec) { s.Env = map[string]string{"A=B": "c"} },
		"an env value with NUL":  func(s *spec.Spec) { s.Env = map[string]string{"A": "a\x00b"} },
		"an unknown isolation":   func(s *spec.Spec) { s.Isolation = "berth" },
		"an unknown network":     func(s *spec.Spec) { s.Network = "berth" },
		"a negative limit":       func(s *spec.Spec) { s.Limits.MemoryBytes = -1 },
		"a negative ttl":         func(s *spec.Spec) { s.TTL = -time.Second },
		"a relative hidden path": func(s *spec.Spec) { s.HiddenPaths = []string{".ssh"} },
	} {
		s := e.Spec()
		change(&s)
		key := s.Key
		if e.Caps.Keyed && key == "" {
			s.Key = e.Keyed().Key
		}
		sb, err := berth.Provision(ctx, e.Driver, s)
		if err == nil {
			e.Cleanup(sb.Close)
			t.Errorf("%s was taken", name)
			continue
		}
		if !errors.Is(err, spec.ErrInvalid) && !errors.Is(err, spec.ErrInvalidPath) {
			t.Errorf("%s: %v; want invalid or invalid_path", name, err)
		}
		if key == "" {
			e.wantAbsent(ctx, t, s.Key)
		}
	}
}

func placeStatus(ctx context.Context, t T, e *Env) {
	if err := e.Sandbox.Ping(ctx); err != nil {
		t.Errorf("ping: %v", err)
	}
	status, err := e.Sandbox.Status(ctx)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	if status.State != spec.StateRunning || status.Uptime <= 0 || status.Clients < 1 {
		t.Errorf("status %+v; want a running place with a client and some time behind it", status)
	}
}

func placeDestroy(ctx context.Context, t T, e *Env) {
	sb := e.Provision(ctx, t, e.Spec())
	for range 2 {
		if err := sb.Destroy(ctx); err != nil {
			t.Errorf("destroy: %v", err)
		}
	}
	_, err := sb.Exec(ctx, []string{"true"}, berth.ExecOptions{})
	wantError(t, "exec", err, spec.ErrNotFound)
	_, err = sb.Files().ReadFile(ctx, "/etc/hostname")
	wantError(t, "read", err, spec.ErrNotFound)
	wantError(t, "write", sb.Files().WriteFile(ctx, "x", nil, files.WriteOptions{}), spec.ErrNotFound)
	_, err = sb.Status(ctx)
	wantError(t, "status", err, spec.ErrNotFound)
	wantError(t, "ping", sb.Ping(ctx), spec.ErrNotFound)
	if err := sb.Close(ctx); err != nil {
		t.Errorf("close after destroy: %v", err)
	}
}

func placeClose(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	sb := e.Provision(ctx, t, s)
	for range 2 {
		if err := sb.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	e.wantAbsent(ctx, t, s.Key)
}

func placePersist(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	s.Persist = true
	if _, ok := e.Driver.(driver.Stopper); !ok {
		sb, err := berth.Provision(ctx, e.Driver, s)
		if err == nil {
			e.Cleanup(sb.Destroy)
		}
		wantError(t, "persist", err, spec.ErrUnsupported)
		e.wantAbsent(ctx, t, s.Key)
		return
	}
	sb := e.Provision(ctx, t, s)
	if err := sb.Files().WriteFile(ctx, "kept", []byte("state"), files.WriteOptions{}); err != nil {
		t.Fatalf("write: %v", err)
	}
	if err := sb.Close(ctx); err != nil {
		t.Fatalf("close: %v", err)
	}
	if o, ok := e.owned(ctx, t, s.Key); !ok || o.State != spec.StateStopped {
		t.Errorf("after close it is listed: %v, as %q; want it stopped", ok, o.State)
	}
	_, err := berth.Attach(ctx, e.Driver, s.Key)
	wantError(t, "attach to a stopped place", err, spec.ErrNotFound)
	again := e.ProvisionWith(ctx, t, e.Open(t), s, berth.ProvisionOptions{})
	data, err := again.Files().ReadFile(ctx, "kept")
	if err != nil {
		t.Errorf("read: %v", err)
	}
	wantText(t, "what was kept", data, "state")
	if again.ID() != sb.ID() {
		t.Errorf("ids %q and %q; want one place", sb.ID(), again.ID())
	}
}

// listed finds the case's own place in the listing of another client.
func (e *Env) listed(ctx context.Context, t T, id string) (spec.Owned, bool) {
	t.Helper()
	list, err := e.Open(t).Owned(ctx)
	if err != nil {
		t.Fatalf("owned: %v", err)
	}
	i := slices.IndexFunc(list, func(o spec.Owned) bool { return o.ID == id })
	if i < 0 {
		return spec.Owned{}, false
	}
	return list[i], true
}

func placeEphemeral(ctx context.Context, t T, e *Env) {
	o, ok := e.listed(ctx, t, e.Sandbox.ID())
	if !ok {
		t.Fatalf("the place %q is not listed", e.Sandbox.ID())
	}
	if !o.Ephemeral || spec.ValidateKey(o.Key) != nil || o.State != spec.StateRunning || o.Backend != e.Driver.Name() {
		t.Errorf("listed as %+v; want it ephemeral, running, with a key of its own", o)
	}
}

func placeOrphan(ctx context.Context, t T, e *Env) {
	id := e.Sandbox.ID()
	if err := e.Sandbox.Detach(ctx); err != nil {
		t.Fatalf("detach: %v", err)
	}
	gone := within(ctx, e.Options.OrphanAfter+20*time.Second, func() bool {
		o, ok := e.listed(ctx, t, id)
		return !ok || o.State == spec.StateStopped
	})
	if !gone {
		t.Errorf("the place still runs %v after its last client left", e.Options.OrphanAfter+20*time.Second)
	}
}

// running says whether the listing shows a place with key that runs.
func (e *Env) running(ctx context.Context, t T, key spec.Key) bool {
	t.Helper()
	o, ok := e.owned(ctx, t, key)
	return ok && o.State == spec.StateRunning
}

func placeTTL(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	s.TTL = 3 * time.Second
	sb := e.Provision(ctx, t, s)
	if o, ok := e.owned(ctx, t, s.Key); !ok || o.TTL != s.TTL {
		t.Errorf("listed as %+v, %v; want its ttl", o, ok)
	}
	if !e.Eventually(ctx, func() bool { return !e.running(ctx, t, s.Key) }) {
		t.Errorf("the place outlived its ttl of %v", s.TTL)
	}
	if err := sb.Ping(ctx); err == nil {
		t.Errorf("its guest still answers")
	}
	_, err := berth.Attach(ctx, e.Driver, s.Key)
	wantError(t, "attach", err, spec.ErrNotFound)
}

func placeIdle(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	s.IdleTimeout = 2 * time.Second
	sb := e.Provision(ctx, t, s)
	time.Sleep(s.IdleTimeout + time.Second)
	if err := sb.Ping(ctx); err != nil {
		t.Errorf("a place with a client is not idle: %v", err)
	}
	if err := sb.Detach(ctx); err != nil {
		t.Errorf("detach: %v", err)
	}
	if !e.Eventually(ctx, func() bool { return !e.running(ctx, t, s.Key) }) {
		t.Errorf("the place outlived its idle timeout of %v", s.IdleTimeout)
	}
	_, err := berth.Attach(ctx, e.Driver, s.Key)
	wantError(t, "attach", err, spec.ErrNotFound)
}

func placeDetach(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	first := e.Provision(ctx, t, s)
	p, err := first.Start(ctx, &spec.Command{Args: berth.Shell("sleep 300 & sleep 300"), Env: map[string]string{markName: e.Mark}}, berth.Stdio{})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	second := e.Attach(ctx, t, s.Key)
	if len(e.Marked(ctx, t, second, e.Mark)) == 0 {
		t.Fatalf("the command is not there")
	}
	if err := first.Detach(ctx); err != nil {
		t.Errorf("detach: %v", err)
	}
	if exit, err := p.Wait(ctx); err == nil && exit.Success() {
		t.Errorf("wait after detach: a success; want an error, or the end by a signal")
	}
	if !e.Eventually(ctx, func() bool { return len(e.Marked(ctx, t, second, e.Mark)) == 0 }) {
		t.Errorf("the command outlived its client")
	}
}

func placeLazy(ctx context.Context, t T, e *Env) {
	lazy := berth.New(e.Driver, e.Spec(), berth.ProvisionOptions{})
	e.Cleanup(lazy.Close)
	if lazy.ID() != "" {
		t.Errorf("it has the id %q before its first use", lazy.ID())
	}
	ids := make(chan string, 4)
	for range cap(ids) {
		go func() {
			if _, err := lazy.Exec(ctx, []string{"true"}, berth.ExecOptions{}); err != nil {
				ids <- err.Error()
				return
			}
			ids <- lazy.ID()
		}()
	}
	for range cap(ids) {
		if id := <-ids; id != lazy.ID() {
			t.Errorf("one use had %q, the sandbox is %q", id, lazy.ID())
		}
	}
}

func placeShared(ctx context.Context, t T, e *Env) {
	name := e.file("shared")
	e.write(ctx, t, name, []byte("from files\x00\xff"), files.WriteOptions{})
	r := e.Exec(ctx, t, []string{"/bin/sh", "-c", `cat "$1"; echo from exec >"$1-2"`, "sh", name}, berth.ExecOptions{})
	wantText(t, "what the command reads", r.Stdout, "from files\x00\xff")
	data, err := e.Sandbox.Files().ReadFile(ctx, name+"-2")
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	wantText(t, "what the command wrote", data, "from exec\n")
}
