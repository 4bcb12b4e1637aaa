package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// maxAnswer bounds what is read of an answer in Podman's own API.
const maxAnswer = 4 << 20

// Runtime says by which runtime a container is run. Podman tells it in its own API only.
func (e *Engine) Runtime(ctx context.Context, auth driver.Authority, c *container.InspectResponse) (string, error) {
	if !e.Libpod {
		return c.HostConfig.Runtime, nil
	}
	var answer struct{ OCIRuntime string }
	err := e.Do(ctx, Call{Authority: auth, What: "inspect container", Reads: true}, func(ctx context.Context, _ *client.Client) error {
		return e.askLibpod(ctx, "/v4.0.0/libpod/containers/"+c.ID+"/json", &answer)
	})
	return filepath.Base(answer.OCIRuntime), err
}

// withoutRoot takes from f what a Podman that is not root's cannot do, and does not say in
// Docker's words: it enforces what the control groups that it was given do, which are none
// where they are of version 1; there it freezes nothing either. What it alone can do is added.
func (e *Engine) withoutRoot(ctx context.Context, f *Facts) error {
	var answer struct {
		Host struct {
			CgroupVersion     string
			CgroupControllers []string
			Security          struct{ Rootless bool }
			IDMappings        struct{ UIDMap, GIDMap []idMap }
		}
	}
	if err := e.askLibpod(ctx, "/v4.0.0/libpod/info", &answer); err != nil {
		return err
	}
	if host := answer.Host; host.Security.Rootless {
		has := func(controller string) bool { return slices.Contains(host.CgroupControllers, controller) }
		f.Memory, f.PIDs, f.CPU = f.Memory && has("memory"), f.PIDs && has("pids"), f.CPU && has("cpu")
		f.Pause = host.CgroupVersion != "v1"
		if uid, gid := outsideRoot(host.IDMappings.UIDMap), outsideRoot(host.IDMappings.GIDMap); uid > 0 {
			f.Keeper = strconv.Itoa(uid) + ":" + strconv.Itoa(gid)
		}
	}
	return nil
}

// askLibpod makes one request in Podman's own API, on a connection of its own.
func (e *Engine) askLibpod(ctx context.Context, path string, into any) error {
	if e.at.Dial == nil {
		return &spec.Error{Code: spec.CodeUnsupported, Err: errors.New("podman's own API is not asked by a pipe")}
	}
	one := http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return e.at.Dial(ctx) }}
	defer one.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine"+path, nil)
	if err != nil {
		return err
	}
	answer, err := one.RoundTrip(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("podman's own API says %s", answer.Status)
	}
	return json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(into)
}

// SeccompOption begins the option of a container that is a profile of system calls.
const SeccompOption = "seccomp="

// IsProfile reports whether an option of a container is this profile of system calls: itself,
// or the name of a file that had it.
func IsProfile(option, profile string) bool {
	return option == SeccompOption+profile || strings.HasPrefix(option, SeccompOption+"/") && filepath.Base(option) == profileName(profile)
}

func profileName(profile string) string {
	sum := sha256.Sum256([]byte(profile))
	return hex.EncodeToString(sum[:]) + ".json"
}

// fileProfile makes the profile of system calls that a container is to have the name of a
// file of this machine, for an engine that takes no other; it reads it in the creation. done
// removes the file.
func fileProfile(h *container.HostConfig) (_ *container.HostConfig, done func(), err error) {
	at := slices.IndexFunc(h.SecurityOpt, func(option string) bool { return strings.HasPrefix(option, SeccompOption) })
	if at < 0 {
		return h, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "berth-seccomp-")
	if err != nil {
		return nil, nil, err
	}
	done = func() { os.RemoveAll(dir) }
	profile := strings.TrimPrefix(h.SecurityOpt[at], SeccompOption)
	file := filepath.Join(dir, profileName(profile))
	if err := os.WriteFile(file, []byte(profile), 0o600); err != nil {
		done()
		return nil, nil, err
	}
	filed := *h
	filed.SecurityOpt = slices.Clone(h.SecurityOpt)
	filed.SecurityOpt[at] = SeccompOption + file
	return &filed, done, nil
}
