package address

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/spec"
)

// none is the name of the context that is none: the usual address.
const none = "default"

// maxFileBytes is the most that a file of a context, or a certificate, may have.
const maxFileBytes = 1 << 20

// endpoint is what a context says of its engine; host "": that it is the usual one.
type endpoint struct {
	name, host   string
	certificates certificates
}

// lookUp returns the context of a name, or the current one. No configuration, no
// configuration file and no current context are no error.
func lookUp(dir, name string) (endpoint, error) {
	if name == "" && dir != "" {
		var config struct{ CurrentContext string }
		err := readJSON(filepath.Join(dir, "config.json"), &config)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return endpoint{}, invalid("docker configuration", err, "put the file right, or name the engine with DOCKER_HOST")
		}
		name = config.CurrentContext
	}
	if name == "" || name == none {
		return endpoint{}, nil
	}
	what := fmt.Sprintf("docker context %.64q", name)
	hint := "`docker context ls` shows those that there are; choose one with DOCKER_CONTEXT or `docker context use`"
	if dir == "" {
		return endpoint{}, invalid(what, errors.New("there is no directory that holds contexts"), "set HOME or DOCKER_CONFIG")
	}
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	file := filepath.Join(dir, "contexts", "meta", id, "meta.json")
	var meta struct {
		Name      string
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	if err := readJSON(file, &meta); err != nil {
		return endpoint{}, invalid(what, err, hint)
	}
	engine := meta.Endpoints["docker"]
	switch {
	case meta.Name != name:
		return endpoint{}, invalid(what, fmt.Errorf("%s: it is of another context, %.64q", file, meta.Name), hint)
	case engine.Host == "":
		return endpoint{}, invalid(what, fmt.Errorf("%s: it names no docker engine", file), hint)
	}
	c := endpoint{name: name, host: engine.Host, certificates: certificates{anyone: engine.SkipTLSVerify}}
	tls := filepath.Join(dir, "contexts", "tls", id, "docker")
	if _, err := os.Stat(tls); err == nil {
		c.certificates.dir = tls
	}
	c.certificates.use = c.certificates.dir != "" || engine.SkipTLSVerify
	return c, nil
}

func invalid(what string, err error, hint string) error {
	code := spec.CodeInvalid
	if errors.Is(err, fs.ErrPermission) {
		code = spec.CodePermission
	}
	return &spec.Error{Code: code, Err: fmt.Errorf("%s: %w", what, err), Hint: hint}
}

// readJSON reads a file; its error names it.
func readJSON(name string, into any) error {
	data, err := readFile(name)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// readFile reads a small regular file. It neither waits for a pipe nor reads a device.
// The error does not name it.
func readFile(name string) ([]byte, error) {
	data, err := readRegular(name)
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return data, err
}

func readRegular(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case info.Size() > maxFileBytes:
		return nil, fmt.Errorf("it has %d bytes, at most %d are read", info.Size(), maxFileBytes)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFileBytes))
}
