package engine

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/spec"
)

// A socket that is closed to this user is permission, with what opens it.
func TestClosedSocket(t *testing.T) {
	e := &Engine{Dialect: Docker(), host: "unix:///s"}
	err := e.classify(Call{What: "x"}, fmt.Errorf("error during connect: %w", &dialError{&net.OpError{Op: "dial", Err: syscall.EACCES}}))
	if !errors.Is(err, spec.ErrPermission) || !strings.Contains(spec.HintOf(err), "docker group") {
		t.Errorf("%v (hint %q); want permission", err, spec.HintOf(err))
	}
}

// The advice for an engine that is absent does not say of DOCKER_HOST what is not so.
func TestAbsentHint(t *testing.T) {
	if hint := (&Engine{Dialect: Docker()}).absentHint(); !strings.Contains(hint, "start dockerd") || !strings.Contains(hint, "docker.io") {
		t.Errorf("without an address: %q", hint)
	}
	if hint := (&Engine{Dialect: Docker(), named: true}).absentHint(); !strings.Contains(hint, "points there") {
		t.Errorf("with an address: %q", hint)
	}
}
