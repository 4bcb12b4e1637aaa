//go:build linux

package docker_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

func TestZZ(t *testing.T) {
	o, ctx := testOptions(t), context.Background()
	s := busybox(t)
	api := engine.Client(t)
	d := newDriver(t, o)
	med := map[string][]time.Duration{}
	take := func(name string, f func()) { st := time.Now(); f(); med[name] = append(med[name], time.Since(st)) }
	for i := range 7 {
		var sb *berth.Sandbox
		take("ours: provision+exec", func() {
			s.Key = spec.Key(fmt.Sprintf("k%d", i))
			sb = provision(t, d, s)
			if _, err := sb.Exec(ctx, []string{"true"}, berth.ExecOptions{}); err != nil { t.Fatal(err) }
		})
		take("ours: exec", func() {
			if _, err := sb.Exec(ctx, []string{"true"}, berth.ExecOptions{}); err != nil { t.Fatal(err) }
		})
		take("ours: attach", func() { sb2, err := berth.Attach(ctx, d, s.Key); if err != nil { t.Fatal(err) }; defer sb2.Detach(ctx) })
		take("ours: probe", func() { d.Probe(ctx) })
		take("ours: destroy", func() { sb.Destroy(ctx) })
		take("cli run --rm net none", func() {
			out, err := exec.Command("docker", "-H", o.Host, "run", "--rm", "--network", "none", s.Image, "true").CombinedOutput()
			if err != nil { t.Fatal(string(out)) }
		})
		take("cli run --rm", func() { exec.Command("docker", "-H", o.Host, "run", "--rm", s.Image, "true").Run() })
		take("api create+attach+start+wait", func() {
			c, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{Config: &container.Config{Image: s.Image, Cmd: []string{"true"}, AttachStdout: true}, HostConfig: &container.HostConfig{NetworkMode: "none"}})
			if err != nil { t.Fatal(err) }
			a, err := api.ContainerAttach(ctx, c.ID, client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
			if err != nil { t.Fatal(err) }
			w := api.ContainerWait(ctx, c.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
			api.ContainerStart(ctx, c.ID, client.ContainerStartOptions{})
			select { case <-w.Result: case err := <-w.Error: t.Fatal(err) }
			a.Close()
			defer api.ContainerRemove(context.Background(), c.ID, client.ContainerRemoveOptions{Force: true})
		})
		time.Sleep(100*time.Millisecond)
	}
	for k, v := range med { slices.Sort(v); t.Logf("%-32s min %v median %v", k, v[0], v[len(v)/2]) }
}
