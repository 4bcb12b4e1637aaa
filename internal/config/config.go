package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-dev/berth/spec"
)

// The bounds of a command's time. 0 asks for none.
const (
	DefaultTimeout = 2 * time.Minute
	MaxTimeout     = time.Hour
)

// Config is what the program runs with. Paths of flags are as given; those of the
// file and the environment are absolute.
type Config struct {
	// File is the configuration file that was read, or "".
	File string

	Backend  string
	Owner    string
	StateDir string // where backends keep what belongs to their places
	CacheDir string // where built guest binaries are kept
	DataDir  string // where work trees of sessions are kept; "": there is no home
	Guest    string // a guest binary to use, or "": found as package guest says

	Isolation spec.Isolation
	Network   spec.Network
	Timeout   time.Duration // of a command; 0: none
	// NoOutputTimeout ends a command that is silent for so long; 0: none.
	NoOutputTimeout time.Duration
	Shell           string // of a place, for a script; never ""
	JobOwner        string // whose jobs are meant; may be ""

	Audit   bool     // what is done to sandboxes with a key is recorded
	Secrets []string // variables whose values are taken out of that
	// NamedSecrets are those of Secrets that a flag names: there are such variables.
	NamedSecrets []string

	Writable []string
	Hidden   []string
	Image    string
	// Container is for the backends whose places are containers.
	Container Container

	SSH        SSH
	Docker     Docker
	PodmanHost string // "": the usual service, root's or this user's
	// PodmanStart: where there is none, one is started on demand.
	PodmanStart bool
	Sandbox     Sandbox

	Color bool // see Colour

	// Values says of every setting what it is and where that comes from, in the
	// order of Settings.
	Values []Value
	// Unknown are the names of BERTH_ variables that mean nothing: a misspelling
	// that would be ignored otherwise.
	Unknown []string

	gitToken string
	environ  map[string]string
	given    map[string]bool
	readFile func(name string) ([]byte, error)
}

// SSH says which host the ssh backend uses, and how.
type SSH struct {
	Addr       string // host or host:port
	User       string
	Key        string // private key file
	Agent      string // socket of an ssh-agent
	KnownHosts string
	Dir        string // where places live on that host
}

// Docker says which Docker engine is meant, as Docker's command line does; see
// docker.Options. What is set for a higher source goes before what is set for a lower
// one, and in one source the host before the context.
type Docker struct {
	Host, Context, ConfigDir string
	TLS                      bool
	TLSDir                   string
	BuildKit                 *bool
}

// Value is one resolved setting.
type Value struct {
	Setting
	// Text is the value as text, lists joined by ':'; "" where nothing is set. That of a
	// secret says that there is one.
	Text string
	// Source is "default", "flag", a variable's name or "file:line".
	Source string
}

// Sources are what Load reads.
type Sources struct {
	// Flags holds the values of the flags that were given, by Setting.Key.
	Flags map[string][]string
	// Environ has the form of os.Environ. Of a repeated name the last counts.
	Environ []string
	// ReadFile reads the configuration file; a missing one is fs.ErrNotExist.
	ReadFile func(name string) ([]byte, error)
}

// Load resolves every setting. The error is a *spec.Error.
func Load(s Sources) (*Config, error) {
	c, wrong := LoadAll(s)
	if len(wrong) > 0 {
		return nil, wrong[0]
	}
	return c, nil
}

// LoadAll resolves every setting that can be resolved, and returns what is wrong with
// the others, which have their defaults: for a program that says what is wrong. A file
// with a mistake counts as empty. The errors are *spec.Errors.
func LoadAll(s Sources) (*Config, []error) {
	c := &Config{environ: environMap(s.Environ), Color: Colour(s.Environ), given: map[string]bool{}, readFile: s.ReadFile}
	var wrong []error
	file, err := c.findFile(s)
	if err != nil {
		wrong = append(wrong, err)
		file = &document{}
	}
	for i := range settings {
		found := c.candidates(&settings[i], s.Flags, file)
		v, err := c.resolve(&settings[i], found)
		if err != nil {
			wrong = append(wrong, err)
			v, _ = c.resolve(&settings[i], found[:1]) // a default is well-formed
		}
		c.Values = append(c.Values, v)
	}
	c.Unknown = unknownVariables(c.environ)
	return c, wrong
}

// Colour reports whether an environment allows colour on a terminal: NO_COLOR is unset
// or empty, and TERM is not dumb.
func Colour(environ []string) bool {
	m := environMap(environ)
	return m["NO_COLOR"] == "" && m["TERM"] != "dumb"
}

// Lookup returns a variable of the environment that Load was given.
func (c *Config) Lookup(name string) (string, bool) {
	v, ok := c.environ[name]
	return v, ok
}

// GitToken returns the secret for clones from a host, or "": the one that is set for any,
// else, for github.com, the one that GitHub's own programs take.
func (c *Config) GitToken(host string) string {
	switch {
	case c.gitToken != "":
		return c.gitToken
	case host == "github.com":
		return cmp.Or(c.environ["GH_TOKEN"], c.environ["GITHUB_TOKEN"])
	}
	return ""
}

// Given reports whether a flag set the setting: a demand of this command line, where
// file and environment state what is usual.
func (c *Config) Given(key string) bool { return c.given[key] }

// Located reports whether somebody has said where the engine or host of a backend is.
func (c *Config) Located(backend string) bool {
	switch backend {
	case "docker":
		return c.Docker.Host != "" || c.Docker.Context != ""
	case "podman":
		return c.PodmanHost != ""
	case "ssh":
		return c.SSH.Addr != ""
	}
	return false
}

// candidate is a value that one source gives to a setting.
type candidate struct {
	raw    raw
	source string
	where  string // how an error names it
	flag   bool
}

// candidates are the values of one setting, weakest first: the first is the default,
// which may be empty.
func (c *Config) candidates(s *Setting, flags map[string][]string, file *document) []candidate {
	found := []candidate{{raw: raw{texts: c.defaults(s)}, source: "default", where: "default of " + s.Key}}
	if v, ok := file.values[s.Key]; ok {
		found = append(found, candidate{raw: v, source: fmt.Sprintf("%s:%d", file.name, v.line), where: fmt.Sprintf("%s:%d: key %s", file.name, v.line, s.Key)})
	}
	if text := c.environ[s.Env]; s.Env != "" && text != "" {
		found = append(found, candidate{raw: raw{texts: s.list(text)}, source: s.Env, where: s.Env})
	}
	if texts, ok := flags[s.Key]; ok {
		c.given[s.Key] = true
		found = append(found, candidate{raw: raw{texts: texts}, source: "flag", where: "--" + s.Flag, flag: true})
	}
	return found
}

// resolve applies the strongest candidate of a setting; for a setting that adds up, all
// of them. After an error nothing of the candidate that is wrong is applied.
func (c *Config) resolve(s *Setting, found []candidate) (Value, error) {
	if !s.adds {
		found = found[len(found)-1:]
	}
	value := Value{Setting: *s, Source: found[len(found)-1].source}
	var shown []string
	for _, f := range found {
		if len(f.raw.texts) == 0 {
			continue
		}
		parse := s.parse
		if f.flag && s.parseFlag != nil {
			parse = s.parseFlag
		}
		texts, err := f.raw.texts, f.raw.fits(s)
		if err == nil {
			texts, err = c.expand(s, f)
		}
		if err == nil {
			err = parse(c, texts)
		}
		if err != nil {
			return Value{}, &spec.Error{Op: "config", Code: spec.CodeInvalid, Err: fmt.Errorf("%s: %w", f.where, err), Hint: s.hint()}
		}
		shown = append(shown, texts...)
	}
	if value.Text = strings.Join(shown, ":"); s.secret && value.Text != "" {
		value.Text = "(hidden)"
	}
	return value, nil
}

// defaults returns what holds where nothing sets s. The directories have none
// where there is no home to put them in.
func (c *Config) defaults(s *Setting) []string {
	if s.base == "" {
		return s.list(s.Default)
	}
	if dir := c.xdg(s.base, s.under); dir != "" {
		return []string{dir}
	}
	return nil
}

// expand replaces a leading "~/" in paths, which no shell has done for a file, and
// insists on absolute paths where there is no working directory to mean.
func (c *Config) expand(s *Setting, f candidate) ([]string, error) {
	if !s.path || f.flag {
		return f.raw.texts, nil
	}
	out := make([]string, 0, len(f.raw.texts))
	for _, text := range f.raw.texts {
		if rest, ok := strings.CutPrefix(text, "~/"); ok && c.environ["HOME"] != "" {
			text = filepath.Join(c.environ["HOME"], rest)
		}
		if !filepath.IsAbs(text) {
			return nil, fmt.Errorf("%q is not an absolute path", text)
		}
		out = append(out, text)
	}
	return out, nil
}

// findFile finds and parses the configuration file. The document is never nil.
func (c *Config) findFile(s Sources) (*document, error) {
	name, named := c.environ["BERTH_CONFIG"], true
	if given := s.Flags["config"]; len(given) > 0 {
		name = given[0]
	}
	if name == "" {
		named = false
		dir := c.xdg("XDG_CONFIG_HOME", ".config")
		if dir == "" {
			return &document{}, nil
		}
		name = filepath.Join(dir, "config.toml")
	}
	data, err := s.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return &document{}, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, &spec.Error{Op: "config", Path: name, Code: spec.CodeFileNotFound, Hint: "write the file, or unset BERTH_CONFIG and leave out --config"}
	case errors.Is(err, errNotRegular):
		return nil, &spec.Error{Op: "config", Path: name, Code: spec.CodeNotRegular, Hint: "name a file with --config or BERTH_CONFIG"}
	case errors.Is(err, fs.ErrPermission):
		return nil, &spec.Error{Op: "config", Path: name, Code: spec.CodePermission, Hint: "make the file readable, or name another one with --config or BERTH_CONFIG"}
	case err != nil:
		return nil, &spec.Error{Op: "config", Path: name, Code: spec.CodeInvalid, Err: cause(err), Hint: "make the file readable, or name another one with --config or BERTH_CONFIG"}
	}
	c.File = name
	return parseFile(name, data)
}

// xdg returns berth's directory under a base directory of the XDG specification,
// or "" where there is no home to put it in. A relative base is ignored, as the
// specification asks.
func (c *Config) xdg(variable, fallback string) string {
	base := c.environ[variable]
	if !filepath.IsAbs(base) {
		home := c.environ["HOME"]
		if !filepath.IsAbs(home) {
			return ""
		}
		base = filepath.Join(home, fallback)
	}
	return filepath.Join(base, "berth")
}

// cause takes the name off an error of package os: the message has it already.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func environMap(environ []string) map[string]string {
	m := make(map[string]string, len(environ))
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			m[name] = value
		}
	}
	return m
}
