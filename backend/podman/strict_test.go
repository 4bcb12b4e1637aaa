//go:build linux

package podman_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/podman"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/client"
)

// In a strict place of an ordinary user's Podman commands have the ids of that user, outside
// too, whatever the image: what is theirs can be read and what is made is theirs, without a
// capability. The engine has taken it, the guest keeps its state, and nothing is left. Where
// a user is named there is no such namespace.
func TestOfUserStrict(t *testing.T) {
	engine, o := usersEngine(t)
	o.Host, o.Limits = limiting(t, o.Host), nil
	d, err := podman.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if caps, err := d.Probe(ctx); err != nil || !caps.Isolation.Has(spec.IsolationStrict) || caps.Why("strict keep-id") != "" {
		t.Errorf("probe: %+v, %v", caps, err)
	}
	own := fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
	for _, tt := range []struct {
		name  string
		image dockertest.Image
		user  string
		bare  bool // the workdir is the place's own
		want  string
	}{
		{name: "mounted", image: dockertest.Image{Kind: dockertest.Busybox}, want: own},
		{name: "user of the image", image: dockertest.Image{Kind: dockertest.Busybox, UserName: true}, want: own},
		{name: "own workdir", image: dockertest.Image{Kind: dockertest.Busybox}, bare: true, want: own},
		{name: "named", image: dockertest.Image{Kind: dockertest.Busybox}, user: "1000:1000", want: "1000:1000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			work := t.TempDir()
			if err := os.WriteFile(filepath.Join(work, "theirs"), []byte("kept"), 0o600); err != nil {
				t.Fatal(err)
			}
			s := spec.Spec{Key: "k", Image: engine.Image(t, tt.image), Isolation: spec.IsolationStrict, Hardening: spec.Hardening{User: tt.user}}
			if !tt.bare {
				s.Mounts = []spec.Mount{{Source: work, Target: "/workspace"}}
			}
			sb, err := berth.Provision(ctx, d, s)
			if err != nil {
				t.Fatalf("%v (hint: %s)", err, spec.HintOf(err))
			}
			t.Cleanup(func() {
				if err := sb.Destroy(context.Background()); err != nil {
					t.Errorf("destroy: %v", err)
				}
			})
			sh := func(script string) string {
				t.Helper()
				r, err := sb.Exec(ctx, berth.Shell(script), berth.ExecOptions{})
				if err != nil {
					t.Fatalf("%s: %v", script, err)
				}
				return fmt.Sprintf("%d %s%s", r.ExitCode, r.Stdout, r.Stderr)
			}
			const caps = "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\n"
			if got := sh("id -u; id -g; grep -E '^(Cap|NoNew)' /proc/self/status"); got != "0 "+strings.ReplaceAll(tt.want, ":", "\n")+"\n"+caps {
				t.Errorf("commands: %q", got)
			}
			kept := tt.user == ""
			if kept && !tt.bare {
				if got := sh("cat theirs; mkdir -p d && echo x >d/made && chmod 640 d/made && stat -c %u:%g d/made . theirs"); got != "0 kept"+strings.Repeat(own+"\n", 3) {
					t.Errorf("in what is mounted: %q", got)
				}
				st, err := os.Stat(filepath.Join(work, "d/made"))
				if err != nil || st.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) || st.Sys().(*syscall.Stat_t).Gid != uint32(os.Getgid()) {
					t.Errorf("what was made is, outside, %+v, %v; want it to be the caller's", st, err)
				}
			} else if got := sh("cat theirs"); strings.Contains(got, "kept") {
				t.Errorf("%q; want it closed to another user", got)
			}
			if got := sh("! touch /etc/x 2>/dev/null && echo x >/tmp/x && stat -c %u:%g /tmp/x"); got != "0 "+tt.want+"\n" {
				t.Errorf("outside of the workdir: %q", got)
			}
			if err := sb.Files().WriteFile(ctx, "file", []byte("x"), files.WriteOptions{}); (err == nil) != (kept || tt.bare) {
				t.Errorf("write to the workdir: %v", err)
			}
			job, err := sb.Jobs("").Start(ctx, []string{"sh", "-c", "id -u"}, berth.JobOptions{})
			if err != nil {
				t.Fatalf("a job, whose record is in the guest's state: %v", err)
			}
			if info, err := job.Wait(ctx); err != nil || !info.Exit.Success() {
				t.Errorf("the job: %+v, %v", info, err)
			}
			c, err := engine.Client(t).ContainerInspect(ctx, sb.ID(), client.ContainerInspectOptions{})
			if err != nil || (c.Container.HostConfig.UsernsMode != "") != kept || c.Container.Config.User != tt.want {
				t.Errorf("the engine says %q, %q: %v", c.Container.HostConfig.UsernsMode, c.Container.Config.User, err)
			}
			again, err := podman.New(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.(driver.Stopper).Stop(ctx, s.Key, driver.ReapOptions{}); err != nil {
				t.Fatal(err)
			}
			if tt.bare {
				wantKept(ctx, t, again, s, tt.want)
			}
			adopted, err := berth.Provision(ctx, again, s)
			if err != nil || adopted.ID() != sb.ID() {
				t.Fatalf("adopt: %v", err)
			}
			if caps, err := adopted.Caps(ctx); err != nil || caps.Why("strict keep-id") != "" || !caps.Isolation.Has(spec.IsolationStrict) {
				t.Errorf("caps: %+v, %v", caps, err)
			}
			if list, err := adopted.Jobs("").List(ctx); err != nil || len(list) != 1 || list[0].ID != job.ID() {
				t.Errorf("jobs after a start: %+v, %v", list, err)
			}
			s.Hardening.User = "4711:4711"
			if _, err := berth.Provision(ctx, again, s); !errors.Is(err, spec.ErrSpecMismatch) {
				t.Errorf("another user: %v", err)
			}
		})
	}
	volumes, err := engine.Client(t).VolumeList(ctx, client.VolumeListOptions{})
	if err != nil || len(volumes.Items) != 1 {
		t.Errorf("volumes %+v, %v; want the guest's", volumes.Items, err)
	}
}

// wantKept takes a snapshot of a place that has a file of its user's in its workdir and does
// not run, and wants another place of that to have the same.
func wantKept(ctx context.Context, t *testing.T, d driver.Driver, s spec.Spec, owner string) {
	t.Helper()
	snap, err := d.(driver.Snapshotter).Snapshot(ctx, s.Key, driver.SnapshotOptions{})
	if err != nil {
		t.Errorf("snapshot: %v (hint: %s)", err, spec.HintOf(err))
		return
	}
	s.Key, s.Image = "restored", ""
	sb, err := berth.Restore(ctx, d, snap.ID, s, berth.ProvisionOptions{})
	if err != nil {
		t.Errorf("restore: %v (hint: %s)", err, spec.HintOf(err))
	} else {
		r, err := sb.Exec(ctx, berth.Shell("stat -c %u:%g . file && cat file"), berth.ExecOptions{})
		if want := owner + "\n" + owner + "\nx"; err != nil || string(r.Stdout) != want {
			t.Errorf("what is restored has %+v, %v; want %q", r, err, want)
		}
		err = sb.Destroy(ctx)
		if err != nil {
			t.Errorf("destroy: %v", err)
		}
	}
	if err := berth.RemoveSnapshot(ctx, d, snap.ID, berth.ReapOptions{}); err != nil {
		t.Errorf("remove: %v", err)
	}
}

// limiting is the address of an engine that says of itself, and of its containers, that the
// limits of the strict profile are enforced, as one does to which a systemd has delegated
// control groups of version 2. Where this machine has none the profile cannot be had at all;
// everything else that is seen through it is as the engine has it.
func limiting(t *testing.T, host string) string {
	t.Helper()
	socket := strings.TrimPrefix(host, "unix://")
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	proxy.FlushInterval = -1
	proxy.ErrorLog = nil
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	proxy.ModifyResponse = func(r *http.Response) error {
		path := r.Request.URL.Path
		switch {
		case r.StatusCode != http.StatusOK:
			return nil
		case strings.HasSuffix(path, "/libpod/info"):
			return change(r, func(body map[string]any) {
				host := body["host"].(map[string]any)
				host["cgroupVersion"], host["cgroupControllers"] = "v2", []string{"cpu", "memory", "pids"}
			})
		case strings.HasSuffix(path, "/info"):
			return change(r, func(body map[string]any) {
				for _, name := range []string{"MemoryLimit", "SwapLimit", "PidsLimit", "CpuCfsQuota"} {
					body[name] = true
				}
			})
		case strings.Contains(path, "/containers/") && strings.HasSuffix(path, "/json") && !strings.HasSuffix(path, "/containers/json"):
			return change(r, func(body map[string]any) {
				c := body["HostConfig"].(map[string]any)
				c["Memory"], c["MemorySwap"], c["PidsLimit"], c["NanoCpus"] = 2<<30, 2<<30, 512, 2e9
			})
		}
		return nil
	}
	dir, err := os.MkdirTemp("", "") // the name of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: proxy}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Close()
		<-served
		os.RemoveAll(dir)
	})
	return "unix://" + filepath.Join(dir, "s")
}

// change rewrites an answer that is an object.
func change(r *http.Response, with func(map[string]any)) error {
	var body map[string]any
	decoder := json.NewDecoder(r.Body)
	decoder.UseNumber()
	if err := decoder.Decode(&body); err != nil {
		return err
	}
	r.Body.Close()
	with(body)
	text, err := json.Marshal(body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	r.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return err
}
