//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/docker"
	"github.com/berth-dev/berth/backend/podman"
	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/backend/ssh"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/internal/testutil/sshtest"
	"github.com/berth-dev/berth/spec"
)

// argv is the command of all exec rows: an absolute path, so that nobody searches.
const argv = "/bin/true"

// user gets a place, and the rows that can be measured in it.
type user func(sb *berth.Sandbox, rows []row) error

// setup makes a place and calls use with it.
type setup func(ctx context.Context, h *harness, use user) error

var setups = []struct {
	name string
	make setup
}{
	{"process", benchProcess},
	{"guard", benchWall(spec.IsolationGuard)},
	{"jail", benchWall(spec.IsolationJail)},
	{"docker", benchDocker},
	{"podman", benchPodman},
	{"ssh", benchSSH},
}

func backendNames() []string {
	var names []string
	for _, s := range setups {
		names = append(names, s.name)
	}
	return names
}

// eachBackend calls use with the rows of each wanted backend in turn.
func eachBackend(ctx context.Context, want string, log io.Writer, use user) error {
	asked := strings.FieldsFunc(want, func(r rune) bool { return r == ',' })
	for _, name := range asked {
		if !slices.Contains(backendNames(), name) {
			return fmt.Errorf("-backend %q: want some of %s", name, strings.Join(backendNames(), ","))
		}
	}
	for _, s := range setups {
		if len(asked) > 0 && !slices.Contains(asked, s.name) {
			continue
		}
		var measured error
		h := &harness{log: log}
		err := h.try(func() error {
			return s.make(ctx, h, func(sb *berth.Sandbox, rows []row) error {
				measured = use(sb, rows)
				return measured
			})
		})
		switch {
		case err == nil:
		case measured != nil || len(asked) > 0 || ctx.Err() != nil:
			return fmt.Errorf("%s: %w", s.name, err)
		default:
			fmt.Fprintf(log, "bench: %s is left out: %v\n", s.name, err)
		}
	}
	return nil
}

// plain is fork and exec of a program by this process, and waiting for it.
func plain(args ...string) action {
	return func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", args[0], err, out)
		}
		return nil
	}
}

// forkExec is the least that running a program costs: no pipes.
func forkExec(args ...string) action {
	return func(ctx context.Context) error { return exec.CommandContext(ctx, args[0], args[1:]...).Run() }
}

func execIn(sb *berth.Sandbox) action {
	return func(ctx context.Context) error { return sb.CommandContext(ctx, argv).Run() }
}

func ping(sb *berth.Sandbox) action { return sb.Ping }

// within provisions s for the length of use.
func within(ctx context.Context, d driver.Driver, s berth.Spec, use func(*berth.Sandbox) error) error {
	sb, err := berth.Provision(ctx, d, s)
	if err != nil {
		return err
	}
	err = use(sb)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
	defer cancel()
	return errors.Join(err, sb.Destroy(end))
}

// provisionRow is a place made and one command run in it; its end is not timed.
func provisionRow(name string, d driver.Driver, s berth.Spec, against ...alternative) row {
	var sb *berth.Sandbox
	return row{
		name: "provision and exec true", backend: name, slow: true, against: against,
		ours: func(ctx context.Context) (err error) {
			if sb, err = berth.Provision(ctx, d, s); err != nil {
				return err
			}
			return execIn(sb)(ctx)
		},
		after: func(ctx context.Context) error {
			if sb == nil {
				return nil
			}
			return sb.Destroy(ctx)
		},
	}
}

// processDriver returns a driver of this machine and the path of its guest binary.
func processDriver(ctx context.Context, h *harness) (driver.Driver, string, error) {
	bin, err := guest.Binary(ctx, "linux", runtime.GOARCH, guest.BinaryOptions{})
	if err != nil {
		return nil, "", err
	}
	d, err := process.New(process.Options{StateDir: h.TempDir(), Guest: guest.BinaryOptions{Path: bin.Path}})
	return d, bin.Path, err
}

func benchProcess(ctx context.Context, h *harness, use user) error {
	d, bin, err := processDriver(ctx, h)
	if err != nil {
		return err
	}
	s := berth.Spec{Isolation: spec.IsolationNone}
	return within(ctx, d, s, func(sb *berth.Sandbox) error {
		return use(sb, append([]row{
			{name: "exec true", backend: "process", ours: execIn(sb), against: []alternative{{name: "fork+exec", run: forkExec(argv)}}},
			{name: "ping", backend: "process", ours: ping(sb), against: []alternative{{name: "fork+exec", run: forkExec(argv)}}},
			streamRow("process", sb, poured("the same through a pipe", pour...)),
			provisionRow("process", d, s, alternative{name: "fork+exec of the guest", run: forkExec(bin, "version")}),
		}, append(fileRows("process", sb, h), portRows("process", sb, h)...)...))
	})
}

// benchWall measures a level of this machine that has a wall, which bears its name,
// against a plain one.
func benchWall(level spec.Isolation) setup {
	name := string(level)
	return func(ctx context.Context, h *harness, use user) error {
		d, bin, err := processDriver(ctx, h)
		if err != nil {
			return err
		}
		s := berth.Spec{Isolation: level}
		bwrap := []string{
			"bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
			"--disable-userns", "--cap-drop", "ALL", "--new-session", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run",
		}
		bare := alternative{name: "bare bwrap", run: plain(append(slices.Clip(bwrap), argv)...)}
		ofGuest := alternative{name: "bare bwrap of the guest", run: plain(append(slices.Clip(bwrap), bin, "version")...)}
		return within(ctx, d, s, func(sb *berth.Sandbox) error {
			return use(sb, append([]row{
				{name: "exec true", backend: name, ours: execIn(sb), against: []alternative{{name: "fork+exec", run: forkExec(argv)}, bare}},
				{name: "ping", backend: name, ours: ping(sb), against: []alternative{{name: "fork+exec", run: forkExec(argv)}}},
				streamRow(name, sb, poured("the same through a pipe", pour...)),
				provisionRow(name, d, s, bare, ofGuest),
			}, fileRows(name, sb, h)...))
		})
	}
}

func benchDocker(ctx context.Context, h *harness, use user) error {
	return benchEngine(ctx, h, use, engineUnderTest{
		name: "docker", engine: &dockertest.Engine{}, cli: []string{"docker", "--host"}, run: []string{"run"},
		open: func(host, state string) (driver.Driver, error) {
			return docker.New(docker.Options{Host: host, StateDir: state})
		},
	})
}

func benchPodman(ctx context.Context, h *harness, use user) error {
	return benchEngine(ctx, h, use, engineUnderTest{
		name: "podman", engine: dockertest.Podman(), cli: []string{"podman", "--remote", "--url"}, run: []string{"run", "--pull", "never"}, registry: "docker.io/",
		open: func(host, state string) (driver.Driver, error) {
			return podman.New(podman.Options{Host: host, StateDir: state})
		},
	})
}

// engineUnderTest is what differs between the engines.
type engineUnderTest struct {
	name   string
	engine *dockertest.Engine
	open   func(host, state string) (driver.Driver, error)
	// cli begins a command of its own program, which the host follows; run is the verb
	// that makes a container, registry what that program wants before an image's name.
	cli, run []string
	registry string
}

func benchEngine(ctx context.Context, h *harness, use user, e engineUnderTest) error {
	defer e.engine.Close()
	host := e.engine.Host(h)
	image := e.engine.Image(h, dockertest.Image{Kind: dockertest.Busybox})
	api := e.engine.Client(h)
	d, err := e.open(host, h.TempDir())
	if err != nil {
		return err
	}
	s := berth.Spec{Image: image}
	cli := func(args ...string) []string { return slices.Concat(e.cli, []string{host}, args) }
	run := append(slices.Clone(e.run), "--name", "bench-run", "--network", "none", e.registry+image, argv)
	return within(ctx, d, berth.Spec{Key: "bench", Image: image}, func(sb *berth.Sandbox) error {
		id, err := containerID(ctx, api, sb.Key())
		if err != nil {
			return err
		}
		ofFiles := fileRows(e.name, sb, h)
		for i := range ofFiles {
			if r := &ofFiles[i]; r.name == batchName {
				r.against = append(r.against, copiedIn(e.name+" cp (CLI)", sb, cli("cp", "-", id+":/workspace")...))
			}
		}
		return use(sb, append([]row{
			{name: "exec true", backend: e.name, ours: execIn(sb), against: []alternative{{name: "fork+exec", run: forkExec(argv)}}},
			{name: "exec true", backend: e.name, slow: true, ours: execIn(sb), against: []alternative{
				{name: e.name + " exec (CLI)", run: plain(cli("exec", id, argv)...)},
				{name: e.name + " exec (API)", run: apiExec(api, id)},
			}},
			{name: "ping", backend: e.name, ours: ping(sb), against: []alternative{{name: "fork+exec", run: forkExec(argv)}}},
			streamRow(e.name, sb, poured(e.name+" exec (CLI)", cli(append([]string{"exec", id}, pour...)...)...)),
			provisionRow(e.name, d, s, alternative{
				name: e.name + " run (CLI)", run: plain(cli(run...)...), after: plain(cli("rm", "bench-run")...),
			}),
		}, ofFiles...))
	})
}

// containerID finds the container of a place through its label.
func containerID(ctx context.Context, api *client.Client, key berth.Key) (string, error) {
	list, err := api.ContainerList(ctx, client.ContainerListOptions{})
	if err != nil {
		return "", err
	}
	for _, c := range list.Items {
		if c.Labels["dev.berth.key"] == string(key) {
			return c.ID, nil
		}
	}
	return "", fmt.Errorf("no container has the key %s", key)
}

// apiExec is one command by the engine's API: create, attach, read, inspect.
func apiExec(api *client.Client, id string) action {
	return func(ctx context.Context) error {
		created, err := api.ExecCreate(ctx, id, client.ExecCreateOptions{Cmd: []string{argv}, AttachStdout: true, AttachStderr: true})
		if err != nil {
			return err
		}
		attached, err := api.ExecAttach(ctx, created.ID, client.ExecAttachOptions{})
		if err != nil {
			return err
		}
		defer attached.Close()
		if _, err := io.Copy(io.Discard, attached.Reader); err != nil {
			return err
		}
		_, err = api.ExecInspect(ctx, created.ID, client.ExecInspectOptions{})
		return err
	}
}

func benchSSH(ctx context.Context, h *harness, use user) error {
	server := sshtest.Start(h, sshtest.Options{})
	d, err := ssh.New(ssh.Options{
		Addr: server.Addr, User: server.User, KeyFiles: []string{server.KeyFile}, KnownHostsFiles: []string{server.KnownHosts},
		RemoteDir: filepath.Join(server.Dir, "berth"),
	})
	if err != nil {
		return err
	}
	host, port, _ := strings.Cut(server.Addr, ":")
	login := []string{
		"ssh", "-F", "/dev/null", "-p", port, "-i", server.KeyFile, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
		"-o", "UserKnownHostsFile=" + server.KnownHosts, server.User + "@" + host,
	}
	client := plain(append(slices.Clip(login), argv)...)
	s := berth.Spec{}
	return within(ctx, d, s, func(sb *berth.Sandbox) error {
		return use(sb, append([]row{
			{name: "exec true", backend: "ssh", ours: execIn(sb), against: []alternative{{name: "fork+exec", run: forkExec(argv)}}},
			{name: "exec true", backend: "ssh", slow: true, ours: execIn(sb), against: []alternative{{name: "ssh host true", run: client}}},
			{name: "ping", backend: "ssh", ours: ping(sb), against: []alternative{{name: "fork+exec", run: forkExec(argv)}}},
			streamRow("ssh", sb, poured("ssh host", append(slices.Clip(login), pour...)...)),
		}, fileRows("ssh", sb, h)...))
	})
}
