package spec

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sort"
	"strings"
	"time"
)

// The caps on what a caller may ask for. They are generous for people and small
// for a peer that means harm; the guest checks them too.
const (
	MaxKeyBytes   = 128
	MaxPathBytes  = 4096
	MaxArgs       = 65536
	MaxArgBytes   = 128<<10 - 1 // Linux MAX_ARG_STRLEN less the NUL
	MaxArgvBytes  = 1 << 20     // all arguments and environment together
	MaxTimeout    = 366 * 24 * time.Hour
	maxEnvEntries = 16384
	maxUserBytes  = 256
)

// ValidateKey refuses a key that does not match its grammar.
func ValidateKey(k Key) error {
	if k == "" || len(k) > MaxKeyBytes {
		return New(CodeInvalid, fmt.Sprintf("key must have 1 to %d bytes", MaxKeyBytes))
	}
	for i := 0; i < len(k); i++ {
		alnum := isAlnum(k[i])
		if !alnum && (i == 0 || !strings.ContainsRune("._-", rune(k[i]))) {
			return New(CodeInvalid, fmt.Sprintf("key %q: only letters, digits, '.', '_' and '-' are allowed, the first a letter or digit", string(k)))
		}
	}
	return nil
}

// ValidateEnv refuses the first bad name or value, in name order: a name is
// [A-Za-z_][A-Za-z0-9_]*, a value holds no NUL. Values are never quoted in the
// error.
func ValidateEnv(env map[string]string) error {
	if len(env) > maxEnvEntries {
		return New(CodeInvalid, fmt.Sprintf("env has %d entries, at most %d are allowed", len(env), maxEnvEntries))
	}
	names := make([]string, 0, len(env))
	for name := range env {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if !envName(name) {
			return New(CodeInvalid, fmt.Sprintf("env name %q: it must match [A-Za-z_][A-Za-z0-9_]*", clip(name)))
		}
		if strings.IndexByte(env[name], 0) >= 0 {
			return New(CodeInvalid, fmt.Sprintf("env %s: the value holds a NUL byte", name))
		}
		if len(name)+1+len(env[name]) > MaxArgBytes {
			return &Error{Code: CodeTooLarge, Err: fmt.Errorf("env %s: %d bytes, at most %d are possible", name, len(env[name]), MaxArgBytes)}
		}
	}
	return nil
}

// validateTotal refuses more environment than a program can be started with: it is that of
// the place's guest and of every command, with which the command's own arguments share what
// the kernel gives.
func validateTotal(envs ...map[string]string) error {
	total, most, largest := 0, 0, ""
	for _, env := range envs {
		for _, name := range slices.Sorted(maps.Keys(env)) {
			size := len(name) + len(env[name]) + 2
			if total += size; size > most {
				most, largest = size, name
			}
		}
	}
	if total <= MaxArgvBytes {
		return nil
	}
	return &Error{
		Code: CodeTooLarge, Err: fmt.Errorf("env and secrets have %d bytes, at most %d are possible; the largest is %s with %d", total, MaxArgvBytes, clip(largest), most),
		Hint: "write large data to a file of the place",
	}
}

// ValidatePath refuses a path that no file can have: empty, over MaxPathBytes,
// or with a NUL byte. Any other byte is allowed.
func ValidatePath(p string) error {
	switch {
	case p == "":
		return New(CodeInvalidPath, "the path is empty")
	case len(p) > MaxPathBytes:
		return New(CodeInvalidPath, fmt.Sprintf("the path has %d bytes, at most %d are possible", len(p), MaxPathBytes))
	case strings.IndexByte(p, 0) >= 0:
		return New(CodeInvalidPath, "the path holds a NUL byte")
	}
	return nil
}

// Validate refuses a spec that makes no sense on any backend, with CodeInvalid,
// CodeInvalidPath or CodeTooLarge. What depends on a backend is for Caps.Check.
func (s *Spec) Validate() error {
	if s.Key != "" {
		if err := ValidateKey(s.Key); err != nil {
			return err
		}
	}
	if err := ValidateEnv(s.Env); err != nil {
		return err
	}
	if err := s.validateContainer(); err != nil {
		return err
	}
	if err := validateTotal(s.Env, s.Secrets); err != nil {
		return err
	}
	if s.Workdir != "" {
		if err := absolute("workdir", s.Workdir); err != nil {
			return err
		}
		if p := path.Clean(s.Workdir); p == "/proc" || strings.HasPrefix(p, "/proc/") {
			return &Error{Code: CodeInvalidPath, Path: s.Workdir, Err: fmt.Errorf("the workdir lies under /proc")}
		}
	}
	if s.WorkspaceRoot != "" {
		if err := absolute("workspace root", s.WorkspaceRoot); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		name  string
		paths []string
	}{{"writable root", s.WritableRoots}, {"hidden path", s.HiddenPaths}} {
		for _, p := range list.paths {
			if err := absolute(list.name, p); err != nil {
				return err
			}
		}
	}
	if IsolationSet(s.Isolation) == 0 && s.Isolation != IsolationDefault {
		return New(CodeInvalid, fmt.Sprintf("isolation %q: want one of none, guard, jail, standard, strict", clip(string(s.Isolation))))
	}
	if NetworkSet(s.Network) == 0 && s.Network != NetworkDefault {
		return New(CodeInvalid, fmt.Sprintf("network %q: want one of none, limited, open", clip(string(s.Network))))
	}
	if s.Limits.MemoryBytes < 0 || s.Limits.CPUMillis < 0 || s.Limits.PIDs < 0 || s.Limits.DiskBytes < 0 || s.Limits.GPUs < -1 {
		return New(CodeInvalid, "a limit is negative")
	}
	if s.Limits.CPUMillis > 1<<40 {
		return New(CodeInvalid, fmt.Sprintf("cpu limit of %d millis is too large", s.Limits.CPUMillis))
	}
	if s.IdleTimeout < 0 || s.TTL < 0 {
		return New(CodeInvalid, "idle timeout and ttl must not be negative")
	}
	return nil
}

// Validate refuses a command that cannot be meant, before anything is sent.
func (c *Command) Validate() error {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return New(CodeInvalid, "the command is empty")
	}
	if len(c.Args) > MaxArgs {
		return &Error{Code: CodeTooLarge, Err: fmt.Errorf("%d arguments, at most %d are possible", len(c.Args), MaxArgs)}
	}
	total := 0
	for i, a := range c.Args {
		if strings.IndexByte(a, 0) >= 0 {
			return New(CodeInvalid, fmt.Sprintf("argument %d holds a NUL byte", i))
		}
		if len(a) > MaxArgBytes {
			return &Error{Code: CodeTooLarge, Err: fmt.Errorf("argument %d has %d bytes, at most %d are possible", i, len(a), MaxArgBytes), Hint: "pass large data on stdin or write it to a file"}
		}
		total += len(a) + 1
	}
	if err := ValidateEnv(c.Env); err != nil {
		return err
	}
	for name, value := range c.Env {
		total += len(name) + len(value) + 2
	}
	more, err := c.validateEnvPaths()
	if err != nil {
		return err
	}
	total += more
	if total > MaxArgvBytes {
		return &Error{Code: CodeTooLarge, Err: fmt.Errorf("arguments and environment have %d bytes, at most %d are possible", total, MaxArgvBytes), Hint: "pass large data on stdin or write it to a file"}
	}
	if c.Dir != "" {
		if err := ValidatePath(c.Dir); err != nil {
			return err
		}
	}
	for _, timeout := range []time.Duration{c.Timeout, c.NoOutputTimeout} {
		if timeout < 0 || timeout > MaxTimeout {
			return New(CodeInvalid, fmt.Sprintf("timeout %v: want 0 (none) to %v", timeout, MaxTimeout))
		}
	}
	if len(c.User) > maxUserBytes || strings.ContainsAny(c.User, "\x00\n") || strings.HasPrefix(c.User, ":") || strings.Count(c.User, ":") > 1 {
		return New(CodeInvalid, fmt.Sprintf("user %q: want a number or a name, and after a colon the group", clip(c.User)))
	}
	if c.Umask != nil && *c.Umask&^fs.ModePerm != 0 {
		return New(CodeInvalid, fmt.Sprintf("umask %#o: want 0 to 0777", uint32(*c.Umask)))
	}
	for name := range c.Rlimits {
		if !slices.Contains(RlimitNames[:], name) {
			return New(CodeInvalid, fmt.Sprintf("rlimit %q: want one of %s", clip(name), strings.Join(RlimitNames[:], ", ")))
		}
	}
	if len(c.Key) > MaxKeyBytes {
		return New(CodeInvalid, fmt.Sprintf("command key has %d bytes, at most %d are allowed", len(c.Key), MaxKeyBytes))
	}
	return nil
}

// validateEnvPaths returns how many bytes EnvPaths add to the environment.
func (c *Command) validateEnvPaths() (int, error) {
	total := 0
	for name, dirs := range c.EnvPaths {
		if err := ValidateEnv(map[string]string{name: ""}); err != nil {
			return 0, err
		}
		total += len(name) + 2
		for _, dir := range dirs {
			if !path.IsAbs(dir) || strings.ContainsAny(dir, ":\x00") {
				return 0, New(CodeInvalid, fmt.Sprintf("%q for %s: want an absolute path without a colon", clip(dir), name))
			}
			total += len(dir) + 1
		}
	}
	return total, nil
}

// Validate refuses options that cannot be meant.
func (o JobOptions) Validate() error {
	if err := ValidateOwner(o.Owner); err != nil {
		return err
	}
	if o.StallAfter < 0 || o.StallAfter > MaxTimeout {
		return New(CodeInvalid, fmt.Sprintf("stall after %v: want 0 (never) to %v", o.StallAfter, MaxTimeout))
	}
	if o.MaxLogBytes < 0 || o.MaxLogBytes > MaxLogBytes {
		return New(CodeInvalid, fmt.Sprintf("a log of %d bytes: want 0 (%d) to %d", o.MaxLogBytes, int64(DefaultMaxLogBytes), int64(MaxLogBytes)))
	}
	if o.Terminal != nil {
		return o.Terminal.Validate()
	}
	return nil
}

// ValidateTermination refuses a key that no command can have, and a grace that nobody
// waits for.
func ValidateTermination(key string, grace time.Duration) error {
	switch {
	case key == "" || len(key) > MaxKeyBytes:
		return New(CodeInvalid, fmt.Sprintf("a command key has 1 to %d bytes", MaxKeyBytes))
	case grace > MaxTimeout:
		return New(CodeInvalid, fmt.Sprintf("grace %v: want at most %v", grace, MaxTimeout))
	}
	return nil
}

// ValidateOwner refuses the name of an owner that is neither empty nor like a Key.
func ValidateOwner(owner string) error {
	if owner == "" {
		return nil
	}
	if ValidateKey(Key(owner)) != nil {
		return New(CodeInvalid, fmt.Sprintf("owner %q: want nothing, or what a key may be", clip(owner)))
	}
	return nil
}

// Validate refuses a window that cannot be meant.
func (w LogWindow) Validate() error {
	switch {
	case w.Lines < 0 || w.Offset < 0 || w.MaxBytes < 0:
		return New(CodeInvalid, "a log window has a negative length or offset")
	case w.Offset > 0 && w.From != 0:
		return New(CodeInvalid, "a log window begins at a line or at a byte, not at both")
	}
	return nil
}

func absolute(what, p string) error {
	if err := ValidatePath(p); err != nil {
		return Wrap(err, "", "", "", p)
	}
	if !path.IsAbs(p) {
		return &Error{Code: CodeInvalidPath, Path: p, Err: fmt.Errorf("the %s is not an absolute path", what)}
	}
	return nil
}

func envName(name string) bool {
	for i := 0; i < len(name); i++ {
		digit := name[i] >= '0' && name[i] <= '9'
		if !(name[i] == '_' || isAlnum(name[i])) || (digit && i == 0) {
			return false
		}
	}
	return name != ""
}

func isAlnum(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}

func clip(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
