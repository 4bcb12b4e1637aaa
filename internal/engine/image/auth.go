package image

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/registry"
)

const (
	// helperLimit bounds one run of a credential helper, helperGrace the wait for its
	// pipes after its end.
	helperLimit = 10 * time.Second
	helperGrace = time.Second
	// maxConfig and maxSecret bound what is read of the configuration and of a helper.
	maxConfig = 1 << 20
	maxSecret = 64 << 10

	// dockerHub is the name of the registry without a name; hubKey is what the docker
	// command calls it where it keeps its credentials.
	dockerHub = "docker.io"
	hubKey    = "https://index.docker.io/v1/"
	// tokenUser says that a helper's secret is a token, not a password.
	tokenUser = "<token>"
)

// keychain finds credentials for registries where the docker command keeps them.
type keychain struct{ dir string }

// dockerConfig is what of config.json is about credentials.
type dockerConfig struct {
	Auths   map[string]registry.AuthConfig `json:"auths"`
	Store   string                         `json:"credsStore"`
	Helpers map[string]string              `json:"credHelpers"`
}

// serverKey is the name under which credentials of a registry are kept.
func serverKey(domain string) string {
	if domain == dockerHub {
		return hubKey
	}
	return domain
}

// lookup returns the credentials for a registry, by the name that references have for
// it. None is no error: it may serve everybody.
func (k keychain) lookup(ctx context.Context, domain string) (registry.AuthConfig, bool, error) {
	var none registry.AuthConfig
	c, err := k.read()
	if err != nil {
		return none, false, err
	}
	helper, server := c.Store, serverKey(domain)
	for name, h := range c.Helpers {
		if hostOf(name) == hostOf(server) {
			helper = h
		}
	}
	if helper != "" {
		found, ok, err := runHelper(ctx, helper, server)
		if ok || err != nil {
			return found, ok, err
		}
	}
	for name, a := range c.Auths {
		if hostOf(name) != hostOf(server) {
			continue
		}
		if a.Auth != "" {
			text, err := base64.StdEncoding.DecodeString(a.Auth)
			user, password, pair := strings.Cut(string(text), ":")
			if err != nil || !pair {
				return none, false, k.wrong(fmt.Errorf("the auth of %q is not base64 of USER:PASSWORD", name))
			}
			a.Auth, a.Username, a.Password = "", user, strings.TrimRight(password, "\x00")
		}
		a.ServerAddress = server
		if a.Username != "" || a.IdentityToken != "" || a.RegistryToken != "" {
			return a, true, nil
		}
	}
	return none, false, nil
}

// header is lookup in the form of a request's header; "" where there are none.
func (k keychain) header(ctx context.Context, domain string) (string, error) {
	auth, ok, err := k.lookup(ctx, domain)
	if err != nil || !ok {
		return "", err
	}
	data, err := json.Marshal(auth)
	return base64.URLEncoding.EncodeToString(data), err
}

func (k keychain) file() string { return filepath.Join(k.dir, "config.json") }

func (k keychain) wrong(err error) error {
	return &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("%s: %w", k.file(), err), Hint: "docker login writes it; DOCKER_CONFIG names another directory"}
}

// read returns the configuration; a file that is not there is an empty one.
func (k keychain) read() (dockerConfig, error) {
	var c dockerConfig
	if k.dir == "" {
		return c, nil
	}
	f, err := os.OpenFile(k.file(), os.O_RDONLY|openFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	var data []byte
	if err == nil {
		data, err = readRegular(f, maxConfig)
	}
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return c, k.wrong(err)
	}
	return c, nil
}

// hostOf is the host of a key of the configuration, which may be a URL.
func hostOf(key string) string {
	if _, rest, ok := strings.Cut(key, "://"); ok {
		key = rest
	}
	host, _, _ := strings.Cut(key, "/")
	return host
}

// helperName keeps a name from being a path.
var helperName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// runHelper asks docker-credential-NAME for the credentials of a server. That it has none
// is no error.
func runHelper(ctx context.Context, name, server string) (registry.AuthConfig, bool, error) {
	var none registry.AuthConfig
	program := "docker-credential-" + name
	failed := func(err error) error {
		return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("%s: %w", program, err), Hint: "the docker command's config.json names it; docker login --help says how credentials are kept"}
	}
	if !helperName.MatchString(name) {
		return none, false, failed(errors.New("not the name of a program"))
	}
	bounded, cancel := context.WithTimeout(ctx, helperLimit)
	defer cancel()
	cmd := exec.CommandContext(bounded, program, "get")
	cmd.Stdin = strings.NewReader(server)
	out := &capped{most: maxSecret}
	cmd.Stdout, cmd.WaitDelay = out, helperGrace
	err := cmd.Run()
	switch _, exited := errors.AsType[*exec.ExitError](err); {
	case ctx.Err() != nil:
		return none, false, ctx.Err()
	case bounded.Err() != nil:
		return none, false, failed(fmt.Errorf("no answer in %v", helperLimit))
	case exited && bytes.Contains(out.Bytes(), []byte("credentials not found")):
		return none, false, nil
	case exited:
		// What it wrote may hold a secret.
		return none, false, failed(err)
	case err != nil:
		return none, false, failed(err)
	}
	var answer struct{ Username, Secret string }
	if out.over || json.Unmarshal(out.Bytes(), &answer) != nil {
		return none, false, failed(errors.New("its answer is not what such a program says"))
	}
	a := registry.AuthConfig{ServerAddress: server, Username: answer.Username, Password: answer.Secret}
	if answer.Username == tokenUser {
		a = registry.AuthConfig{ServerAddress: server, IdentityToken: answer.Secret}
	}
	return a, answer.Secret != "", nil
}

// capped keeps the first bytes that are written to it.
type capped struct {
	bytes.Buffer
	most int
	over bool
}

func (c *capped) Write(p []byte) (int, error) {
	room := c.most - c.Len()
	c.over = c.over || len(p) > room
	c.Buffer.Write(p[:min(len(p), room)])
	return len(p), nil
}

// readRegular reads a small regular file that has been opened, and closes it.
func readRegular(f *os.File, most int64) ([]byte, error) {
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("over %d bytes", most)
	}
	return data, err
}
