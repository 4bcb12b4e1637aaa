package address

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// dialSSH connects by one SSH connection for all: engines and their proxies turn many
// that come at once away. The program is the user's own, and so are its configuration,
// its keys and the hosts that it knows.
func dialSSH(host, key, socket string) (func(context.Context) (net.Conn, error), error) {
	u, err := parse(host)
	if err != nil {
		return nil, err
	}
	if _, has := u.User.Password(); has {
		return nil, malformed(scrub(host), errors.New("a password in it would be seen by everybody"))
	}
	if u.Path != "" && u.Path != "/" {
		socket = u.Path
	}
	target := u.Hostname()
	if user := u.User.Username(); user != "" {
		target = user + "@" + target
	}
	switch {
	case strings.HasPrefix(target, "-"):
		return nil, malformed(host, errors.New("it begins like an option"))
	case socket == "":
		return nil, malformed(host, errors.New("it names no socket"))
	}
	t := &tunnel{target: target, port: u.Port(), key: key, socket: socket, turn: make(chan struct{}, 1)}
	return t.dial, nil
}

// byHand is the command with which a person sees what goes wrong.
func (t *tunnel) byHand() string {
	if t.port != "" {
		return "ssh -p " + t.port + " " + t.target
	}
	return "ssh " + t.target
}

// failed says why ssh has ended, in its own last words.
func (t *tunnel) failed(words string) error {
	out := &spec.Error{
		Code: spec.CodeUnavailable, Err: fmt.Errorf("engine at ssh://%s: ssh says %q", t.target, words),
		Hint: "see what is wrong by hand: " + t.byHand(),
	}
	switch {
	case words == "":
		out.Err = fmt.Errorf("engine at ssh://%s: ssh ends without a word", t.target)
	case strings.Contains(words, "Permission denied"):
		out.Code = spec.CodePermission
		out.Hint = "no password is asked for: install a key there (ssh-copy-id) and unlock it here (ssh-add), then try " + t.byHand()
	case strings.Contains(words, "Host key verification failed"):
		out.Code = spec.CodePermission
		out.Hint = "compare and accept the host's key by hand: " + t.byHand()
	}
	return out
}

// EndError is the end of a connection, made by SSH, on which nothing has come: nobody
// answers at the far side, or he who did has gone.
type EndError struct{ text, Hint string }

func (e *EndError) Error() string { return e.text }

func (t *tunnel) nobody() error {
	return &EndError{
		text: fmt.Sprintf("engine at ssh://%s: nobody answers at %s on that host", t.target, t.socket),
		Hint: "check that the engine runs there, that the user may open its socket, and that sshd forwards sockets (AllowStreamLocalForwarding); another socket is ssh://host/path",
	}
}
