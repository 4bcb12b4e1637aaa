package address

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"time"

	"github.com/berth-dev/berth/spec"
)

// The names that Docker gives the files of a certificate.
const (
	caFile   = "ca.pem"
	certFile = "cert.pem"
	keyFile  = "key.pem"
)

// certificates are what TLS is done with.
type certificates struct {
	use bool
	// dir holds the files; "": fallback does, or "".
	dir, fallback string
	// anyone: the engine need not prove who it is.
	anyone bool
}

func (c certificates) in() string {
	if c.dir != "" {
		return c.dir
	}
	return c.fallback
}

// load reads the files; nil: no TLS.
func (c certificates) load(host string) (*tls.Config, error) {
	if !c.use {
		return nil, nil
	}
	// #nosec G402 -- a context that says SkipTLSVerify is taken at its word
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, InsecureSkipVerify: c.anyone}
	if c.in() == "" {
		return config, nil
	}
	ca, err := c.read(caFile)
	if err != nil {
		return nil, err
	}
	cert, err := c.read(certFile)
	if err != nil {
		return nil, err
	}
	key, err := c.read(keyFile)
	if err != nil {
		return nil, err
	}
	switch {
	case ca == nil && cert == nil && key == nil && c.dir != "":
		return nil, c.bad("", fmt.Errorf("it holds none of %s, %s and %s", caFile, certFile, keyFile))
	case cert == nil && key != nil:
		return nil, c.bad(certFile, fmt.Errorf("no such file, and there is a %s", keyFile))
	case cert != nil && key == nil:
		return nil, c.bad(keyFile, fmt.Errorf("no such file, and there is a %s", certFile))
	}
	if ca != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, c.bad(caFile, errors.New("it holds no certificate"))
		}
	}
	if cert == nil {
		return config, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, c.bad(certFile, fmt.Errorf("with %s: %w", keyFile, err))
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) || now.Before(pair.Leaf.NotBefore) {
		return nil, c.bad(certFile, fmt.Errorf("it is valid from %s to %s only", pair.Leaf.NotBefore.Format(time.DateTime), pair.Leaf.NotAfter.Format(time.DateTime)))
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// read returns nil for a file that is not there.
func (c certificates) read(name string) ([]byte, error) {
	data, err := readFile(filepath.Join(c.in(), name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, c.bad(name, err)
	}
	return data, nil
}

func (c certificates) bad(name string, err error) error {
	code := spec.CodeInvalid
	if errors.Is(err, fs.ErrPermission) {
		code = spec.CodePermission
	}
	return &spec.Error{
		Code: code, Err: fmt.Errorf("certificates for the engine: %s: %w", filepath.Join(c.in(), name), err),
		Hint: "put ca.pem, cert.pem and key.pem there, or name their directory with DOCKER_CERT_PATH",
	}
}

// refused says why a handshake failed.
func (c certificates) refused(addr string, err error) error {
	out := &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("engine at tcp://%s: %w", addr, err)}
	var (
		plain    tls.RecordHeaderError
		unproved *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &plain):
		out.Err = fmt.Errorf("engine at tcp://%s: it does not speak TLS", addr)
		out.Hint = "unset DOCKER_TLS_VERIFY if it is meant to, or name the port on which the engine has TLS"
	case errors.As(err, &unproved):
		out.Code = spec.CodePermission
		out.Err = fmt.Errorf("engine at tcp://%s: its certificate is not believed: %w", addr, unproved.Err)
		out.Hint = "put the certificate of its authority into " + filepath.Join(c.in(), caFile) + ", and name the engine as its certificate does"
	case Refused(err):
		out.Code, out.Hint = spec.CodePermission, RefusedHint
	}
	return out
}

// RefusedHint is the advice for what Refused reports.
const RefusedHint = "the engine wants a certificate that its authority has signed: put cert.pem and key.pem where DOCKER_CERT_PATH points, and set DOCKER_TLS_VERIFY"

// Refused reports whether err is the other side's refusal to go on with TLS, which may
// come as late as the first answer.
func Refused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}
