package ssh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/berth-dev/berth/spec"
)

// defaultKeyNames are the private keys that are tried where none is named.
var defaultKeyNames = []string{"id_ed25519", "id_ecdsa", "id_rsa"}

// identity is what may log in: the keys, and what is to be said when none of them
// is taken.
type identity struct {
	signers []ssh.Signer
	// tried names the keys, locked the key files that need a passphrase.
	tried, locked []string
	agent         net.Conn // open while signers of it are in use; nil: none
}

// close lets go of the agent.
func (id *identity) close() {
	if id.agent != nil {
		id.agent.Close()
	}
}

// load reads the key files and asks the agent. A file that was asked for by name
// must be usable: a missing, malformed or locked one is an error, unless the agent
// holds the key of a locked one. The caller closes the identity.
func (o *Options) load(ctx context.Context, home string) (*identity, error) {
	id := &identity{}
	inAgent, err := id.askAgent(ctx, o.AgentSocket)
	if err != nil {
		return nil, err
	}
	files, named := o.KeyFiles, true
	if len(files) == 0 {
		named = false
		for _, name := range defaultKeyNames {
			files = append(files, filepath.Join(home, ".ssh", name))
		}
	}
	for _, file := range files {
		if err := id.addFile(file, named, inAgent); err != nil {
			id.close()
			return nil, err
		}
	}
	for _, s := range inAgent {
		id.add(s, "agent")
	}
	if len(id.signers) == 0 {
		text, hint := "there is no private key to log in with", "make one with ssh-keygen -t ed25519 and install it with ssh-copy-id, or start an ssh-agent"
		if len(id.locked) > 0 {
			text = "the private key needs a passphrase: " + strings.Join(id.locked, ", ")
			hint = unlockHint(id.locked[0])
		}
		id.close()
		return nil, &spec.Error{Code: spec.CodePermission, Err: errors.New(text), Hint: hint}
	}
	return id, nil
}

// addFile adds the key in file. A default one that is not there or is locked is
// passed over.
func (id *identity) addFile(file string, named bool, inAgent []ssh.Signer) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil
	}
	if err != nil {
		code := spec.CodeInvalid
		if errors.Is(err, fs.ErrPermission) {
			code = spec.CodePermission
		}
		return &spec.Error{Code: code, Err: fmt.Errorf("private key: %w", err), Hint: "name a private key that can be read"}
	}
	signer, err := ssh.ParsePrivateKey(data)
	var locked *ssh.PassphraseMissingError
	switch {
	case err == nil:
		id.add(signer, file)
		return nil
	case !errors.As(err, &locked):
		if !named {
			return nil
		}
		return &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("private key %s: %w", file, err), Hint: "name the private key, not the public one"}
	}
	if locked.PublicKey != nil {
		for _, s := range inAgent {
			if sameKey(s.PublicKey(), locked.PublicKey) {
				id.add(s, file)
				return nil
			}
		}
	}
	id.locked = append(id.locked, file)
	if named {
		return &spec.Error{Code: spec.CodePermission, Err: fmt.Errorf("private key %s: it needs a passphrase", file), Hint: unlockHint(file)}
	}
	return nil
}

func unlockHint(file string) string {
	return "load it into an ssh-agent and name the agent's socket: ssh-add " + file
}

// add adds a key once.
func (id *identity) add(s ssh.Signer, name string) {
	for _, have := range id.signers {
		if sameKey(have.PublicKey(), s.PublicKey()) {
			return
		}
	}
	id.signers = append(id.signers, s)
	id.tried = append(id.tried, name+" ("+ssh.FingerprintSHA256(s.PublicKey())+")")
}

// askAgent lists the agent's keys; an empty socket means no agent.
func (id *identity) askAgent(ctx context.Context, socket string) ([]ssh.Signer, error) {
	if socket == "" {
		return nil, nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err == nil {
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		defer stop()
		var signers []ssh.Signer
		if signers, err = agent.NewClient(conn).Signers(); err == nil {
			id.agent = conn
			return signers, nil
		}
		conn.Close()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("ssh agent: %w", err), Hint: "start the agent again, or leave its socket out"}
}

func sameKey(a, b ssh.PublicKey) bool { return string(a.Marshal()) == string(b.Marshal()) }
