//go:build linux

package dockertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"
)

const (
	// startLimit bounds a cold start on a busy machine; 2 s is usual.
	startLimit = 90 * time.Second
	// stopLimit bounds a clean stop; containers have been removed before.
	stopLimit = 20 * time.Second
)

// Engine is an engine for the tests of one process. The zero value is a Docker engine;
// Podman returns another. Nothing starts before Host, Client or Image is called. Safe
// for concurrent use.
type Engine struct {
	// Args are more arguments for a daemon of ours. They are set before the first use.
	Args []string

	kind *kind // nil: docker

	mu     sync.Mutex
	host   string
	err    error
	daemon *daemon // nil where the engine is not ours
	api    *client.Client
	images map[string]bool
}

// Host returns the address of a running engine, starting it if need be. Where
// there can be none it fails or, if BERTH_TEST_SKIP_DOCKER is set, skips the test; for
// Podman the variables end in PODMAN.
func (e *Engine) Host(t testing.TB) string {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kind == nil {
		e.kind = &docker
	}
	if os.Getenv(e.kind.skip) == "1" {
		t.Skip(e.kind.skip + " is set")
	}
	if e.host == "" && e.err == nil {
		e.err = e.start()
	}
	if e.err != nil {
		t.Fatalf("%s engine for tests: %v", e.kind.name, e.err)
	}
	return e.host
}

// Client returns an API client of the engine, for looking at what a test left.
func (e *Engine) Client(t testing.TB) *client.Client {
	t.Helper()
	e.Host(t)
	return e.api
}

// Close ends the engine if it is ours, with everything in it. It is idempotent.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.daemon == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	removeContainers(ctx, e.api)
	err := e.daemon.stop()
	e.daemon, e.host, e.err = nil, "", errors.New("the engine is closed")
	return err
}

func (e *Engine) start() error {
	host := os.Getenv(e.kind.host)
	if host == "" {
		if err := e.kind.prerequisites(); err != nil {
			return err
		}
		d, err := startDaemon(e.kind, e.Args)
		if err != nil {
			return err
		}
		e.daemon, host = d, d.host()
	}
	api, err := client.New(client.WithHost(host))
	if err != nil {
		return err
	}
	e.api = api
	if err := e.waitReady(); err != nil {
		if e.daemon != nil {
			err = errors.Join(err, e.daemon.stop())
			e.daemon = nil
		}
		return err
	}
	e.host, e.images = host, map[string]bool{}
	return nil
}

func (e *Engine) waitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		_, err := e.api.Ping(ctx, client.PingOptions{})
		if err == nil {
			return nil
		}
		var exited <-chan struct{}
		if e.daemon != nil {
			exited = e.daemon.exited
		}
		select {
		case <-exited:
			return fmt.Errorf("the engine ended at its start:\n%s", e.daemon.logTail())
		case <-ctx.Done():
			return fmt.Errorf("the engine did not answer in %v: %w", startLimit, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// removeContainers makes the daemon's stop quick: it need not ask anything to end.
func removeContainers(ctx context.Context, api *client.Client) {
	list, err := api.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return
	}
	for _, c := range list.Items {
		_, _ = api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	}
}

func (k *kind) prerequisites() error {
	var missing []string
	for program, pkg := range k.programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, pkg)
		}
	}
	if _, err := os.Stat(busyboxPath); err != nil {
		missing = append(missing, "busybox-static")
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing Debian packages: apt-get install -y --no-install-recommends %s (or set %s, or %s=1)", strings.Join(missing, " "), k.host, k.skip)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("a private engine needs root (or set %s, or %s=1)", k.host, k.skip)
	}
	return nil
}
