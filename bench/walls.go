//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/docker"
	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/drivertest"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/spec"
)

// walled are the places whose walls are probed.
var walled = []struct {
	name  string
	probe func(ctx context.Context, h *harness) ([]drivertest.Finding, error)
}{
	{"none", wallsOf(spec.IsolationNone)},
	{"guard", wallsOf(spec.IsolationGuard)},
	{"jail", wallsOf(spec.IsolationJail)},
	{"docker", dockerWalls},
}

// printWalls writes one line a place for internal/docs. What root and another user
// find is told apart by the name.
func printWalls(ctx context.Context, want string, stdout, log io.Writer) error {
	asked := strings.FieldsFunc(want, func(r rune) bool { return r == ',' })
	for _, w := range walled {
		if len(asked) > 0 && !slices.Contains(asked, w.name) {
			continue
		}
		h := &harness{log: log}
		var found []drivertest.Finding
		err := h.try(func() (err error) {
			found, err = w.probe(ctx, h)
			return err
		})
		switch {
		case err == nil:
		case len(asked) > 0 || ctx.Err() != nil:
			return fmt.Errorf("%s: %w", w.name, err)
		default:
			fmt.Fprintf(log, "bench: %s is left out: %v\n", w.name, err)
			continue
		}
		name := w.name
		if os.Geteuid() == 0 && name != "docker" {
			name += ", run by root"
		}
		if err := json.NewEncoder(stdout).Encode(struct {
			Name     string               `json:"name"`
			Findings []drivertest.Finding `json:"findings"`
		}{name, found}); err != nil {
			return err
		}
	}
	return nil
}

func wallsOf(level spec.Isolation) func(ctx context.Context, h *harness) ([]drivertest.Finding, error) {
	return func(ctx context.Context, h *harness) ([]drivertest.Finding, error) {
		state := h.TempDir()
		return drivertest.Walls(ctx, drivertest.WallOptions{
			Open: func(home string) (driver.Driver, error) {
				return process.New(process.Options{
					StateDir: filepath.Join(state, "state"),
					BaseEnv:  []string{"HOME=" + home, "PATH=/usr/local/bin:/usr/bin:/bin"},
				})
			},
			Spec: berth.Spec{Isolation: level},
		})
	}
}

func dockerWalls(ctx context.Context, h *harness) ([]drivertest.Finding, error) {
	engine := &dockertest.Engine{}
	defer engine.Close()
	host := engine.Host(h)
	s := berth.Spec{Image: engine.Image(h, dockertest.Image{Kind: dockertest.Busybox})}
	return drivertest.Walls(ctx, drivertest.WallOptions{
		Open: func(string) (driver.Driver, error) { return docker.New(docker.Options{Host: host}) },
		Spec: s,
	})
}
