package ssh

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/berth-dev/berth/spec"
)

// hostKeys checks the key of one host against known_hosts files.
type hostKeys struct {
	addr  string // host:port, as dialled
	files []string
	check ssh.HostKeyCallback
	// algorithms are the ones to ask the host for. A client that lets the host
	// choose gets a key of a type that known_hosts does not list, and takes an
	// honest host for a changed one.
	algorithms []string

	accepted bool  // the host has proved a known key
	refused  error // why it was refused
}

// newHostKeys reads the files that exist; none at all makes every host unknown.
func newHostKeys(addr string, files []string) (*hostKeys, error) {
	h := &hostKeys{addr: addr, files: files}
	var present []string
	for _, f := range files {
		if _, err := os.Stat(f); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		present = append(present, f)
	}
	check, err := knownhosts.New(present...)
	if err != nil {
		code := spec.CodeInvalid
		if errors.Is(err, fs.ErrPermission) {
			code = spec.CodePermission
		}
		return nil, &spec.Error{Code: code, Err: fmt.Errorf("known hosts: %w", err), Hint: "correct the line, or name another known_hosts file"}
	}
	h.check = check
	h.algorithms = algorithmsOf(h.known())
	return h, nil
}

// known lists what the files say of the host.
func (h *hostKeys) known() []knownhosts.KnownKey {
	var mismatch *knownhosts.KeyError
	if errors.As(h.check(h.addr, anyAddr, noKey{}), &mismatch) {
		return mismatch.Want
	}
	return nil
}

// callback is the HostKeyCallback of a client configuration.
func (h *hostKeys) callback(host string, remote net.Addr, key ssh.PublicKey) error {
	if _, _, err := net.SplitHostPort(remote.String()); err != nil {
		remote = anyAddr // a dialer of the caller's need not speak TCP
	}
	err := h.check(host, remote, key)
	if err == nil {
		h.accepted = true
		return nil
	}
	h.refused = h.refusal(err, key)
	return h.refused
}

// refusal says what is wrong with key, and what a person is to do about it.
func (h *hostKeys) refusal(err error, key ssh.PublicKey) error {
	offered := key.Type() + " " + ssh.FingerprintSHA256(key)
	var mismatch *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	switch {
	case errors.As(err, &revoked):
		err = fmt.Errorf("the key of host %s is revoked by %s line %d: %s", h.addr, revoked.Revoked.Filename, revoked.Revoked.Line, offered)
		return &spec.Error{Code: spec.CodePermission, Err: err, Hint: "do not connect before the host has a new key"}
	case errors.As(err, &mismatch) && len(mismatch.Want) == 0:
		return h.unknown(offered)
	case errors.As(err, &mismatch):
		return h.changed(mismatch.Want, "it offers "+offered)
	}
	return &spec.Error{Code: spec.CodePermission, Err: fmt.Errorf("the key of host %s is refused: %w", h.addr, err), Hint: "see the host's certificate: ssh-keyscan -c " + h.scanArgs()}
}

func (h *hostKeys) unknown(offered string) error {
	err := fmt.Errorf("host key unknown: %s is in no known_hosts file; it offers %s", h.addr, offered)
	file := "~/.ssh/known_hosts"
	if len(h.files) > 0 {
		file = h.files[0]
	}
	return &spec.Error{Code: spec.CodePermission, Err: err, Hint: fmt.Sprintf("compare the fingerprint with the host's own, then: ssh-keyscan %s >> %s", h.scanArgs(), file)}
}

func (h *hostKeys) changed(want []knownhosts.KnownKey, instead string) error {
	first := want[0]
	err := fmt.Errorf("host key changed: %s line %d lists another key for %s; %s", first.Filename, first.Line, h.addr, instead)
	return &spec.Error{Code: spec.CodePermission, Err: err, Hint: fmt.Sprintf("somebody may be listening in; if the host was really given a new key: ssh-keygen -f %s -R '%s'", first.Filename, knownhosts.Normalize(h.addr))}
}

// noCommonKey is the refusal of a host that has no key of a listed type.
func (h *hostKeys) noCommonKey(offered []string) error {
	if want := h.known(); len(want) > 0 {
		return h.changed(want, fmt.Sprintf("it has no key of that type, only %s", strings.Join(clipList(offered), ", ")))
	}
	return &spec.Error{Code: spec.CodeUnsupported, Err: fmt.Errorf("host %s has only keys of types that are not supported: %s", h.addr, strings.Join(clipList(offered), ", ")), Hint: "give the host an ed25519 key: ssh-keygen -A"}
}

func (h *hostKeys) scanArgs() string {
	host, port, err := net.SplitHostPort(h.addr)
	if err != nil || port == defaultPort {
		return host
	}
	return "-p " + port + " " + host
}

// algorithmsOf names the signature algorithms of the known keys, certificates
// first where an authority is known; nil, which means all, for an unknown host.
func algorithmsOf(known []knownhosts.KnownKey) []string {
	var certs, plain []string
	supported := ssh.SupportedAlgorithms().HostKeys
	for _, k := range known {
		if isAuthority(k) {
			for _, a := range supported {
				if strings.Contains(a, "-cert-") {
					certs = append(certs, a)
				}
			}
			continue
		}
		if k.Key.Type() == ssh.KeyAlgoRSA {
			plain = append(plain, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		plain = append(plain, k.Key.Type())
	}
	return dedupe(append(certs, plain...))
}

// isAuthority reports whether the line of a known key is a certificate authority.
// The parsed form does not say so.
func isAuthority(k knownhosts.KnownKey) bool {
	f, err := os.Open(k.Filename)
	if err != nil {
		return false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		if n == k.Line {
			return strings.HasPrefix(strings.TrimSpace(lines.Text()), "@cert-authority")
		}
	}
	return false
}

// noKey is a host key that is in no file: to look a host up, not to accept one.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return nil }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

// anyAddr stands for the remote address where only the name counts.
var anyAddr net.Addr = &net.TCPAddr{IP: net.IPv4zero}

func dedupe(in []string) []string {
	var out []string
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// clipList keeps a list that a host sent short.
func clipList(in []string) []string {
	const most = 8
	return in[:min(len(in), most)]
}
