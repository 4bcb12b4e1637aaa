package verb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/config"
	"github.com/berth-dev/berth/spec"
)

// maxEnvFile bounds a file of variables.
const maxEnvFile = 1 << 20

// CommandFlags are the flags that say what to run, of the verbs that run something.
type CommandFlags struct {
	env, envFiles []string
	dir           string
	clean         bool
	envPaths      []string
	user, umask   string
	rlimits       []string
	shell         string
}

// Add adds the flags to a verb.
func (f *CommandFlags) Add(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.env, "env", "e", nil, "`NAME=VALUE` for the command's environment, or NAME to take the value from ours; repeatable")
	flags.StringArrayVar(&f.envFiles, "env-file", nil, "`FILE` with a NAME=VALUE or NAME a line, # begins a comment; --env wins; repeatable")
	flags.BoolVar(&f.clean, "clean-env", false, "give the command nothing but --env and --env-file for an environment")
	flags.StringArrayVar(&f.envPaths, "env-path", nil, "`NAME=DIR` puts an absolute directory of the sandbox in front of the list in NAME (PATH, PYTHONPATH); repeatable")
	flags.StringVar(&f.dir, "cwd", "", "`DIR` of the command, relative to the sandbox's workdir")
	flags.StringVar(&f.user, "user", "", "`USER[:GROUP]` of the sandbox that the command runs as, numbers or names")
	flags.StringVar(&f.umask, "umask", "", "`MASK` of the modes of files that the command makes, in octal")
	flags.StringArrayVar(&f.rlimits, "rlimit", nil, "`NAME=VALUE` of a resource limit, in setrlimit's units or unlimited (nofile=256, cpu=60); repeatable")
	flags.StringVar(&f.shell, "shell", "", "take the first argument as a script for a `SHELL`, those after it as $1, $2, ...")
	flags.Lookup("shell").NoOptDefVal = defaultShell
	AddSettings(flags, "no_output_timeout", "secrets")
}

// defaultShell stands for the setting where --shell has no value.
const defaultShell = "BERTH_SHELL or /bin/sh"

// Command builds the command that args and flags ask for. It has no Timeout.
func (f *CommandFlags) Command(c *config.Config, args []string) (*berth.Command, error) {
	env := map[string]string{}
	for _, name := range f.envFiles {
		entries, err := readEnvFile(name)
		if err != nil {
			return nil, err
		}
		if err := addEnv(env, c, "--env-file "+name+": ", entries); err != nil {
			return nil, err
		}
	}
	if err := addEnv(env, c, "--env ", f.env); err != nil {
		return nil, err
	}
	if err := checkSecrets(c, env); err != nil {
		return nil, err
	}
	command := &berth.Command{Args: args, Dir: f.dir, CleanEnv: f.clean, User: f.user, NoOutputTimeout: c.NoOutputTimeout}
	if len(env) > 0 {
		command.Env = env
	}
	if f.shell != "" {
		command.Args = f.script(c, args)
	}
	for _, entry := range f.envPaths {
		name, dir, ok := strings.Cut(entry, "=")
		if !ok {
			return nil, Usage("--env-path %q: want NAME=DIR", entry)
		}
		if command.EnvPaths == nil {
			command.EnvPaths = map[string][]string{}
		}
		command.EnvPaths[name] = append(command.EnvPaths[name], dir)
	}
	if f.umask != "" {
		mask, err := strconv.ParseUint(f.umask, 8, 32)
		if err != nil || mask > 0o777 {
			return nil, Usage("--umask %q is no mask: want octal digits, 022 say", f.umask)
		}
		mode := fs.FileMode(mask)
		command.Umask = &mode
	}
	for _, entry := range f.rlimits {
		if err := addRlimit(command, entry); err != nil {
			return nil, err
		}
	}
	return command, nil
}

// script returns the argv of a shell that runs args[0] with the others as its
// arguments.
func (f *CommandFlags) script(c *config.Config, args []string) []string {
	shell := f.shell
	if shell == defaultShell {
		shell = c.Shell
	}
	argv := spec.ShellWith(shell, args[0])
	if len(args) > 1 {
		argv = append(append(argv, shell), args[1:]...)
	}
	return argv
}

func addRlimit(c *berth.Command, entry string) error {
	name, text, ok := strings.Cut(entry, "=")
	value, err := strconv.ParseUint(text, 10, 64)
	switch {
	case ok && (text == "unlimited" || text == "infinity"):
		value = spec.RlimitInfinity
	case !ok || err != nil:
		return Usage("--rlimit %q is no limit: want NAME=NUMBER or NAME=unlimited", entry)
	}
	if c.Rlimits == nil {
		c.Rlimits = map[string]uint64{}
	}
	c.Rlimits[name] = value
	return nil
}

// Environment reads --env flags: NAME=VALUE, or NAME for the value that we have.
func Environment(c *config.Config, entries []string) (map[string]string, error) {
	env := map[string]string{}
	if err := addEnv(env, c, "--env ", entries); err != nil || len(env) == 0 {
		return nil, err
	}
	return env, nil
}

// addEnv adds entries to env; where says in an error where they are from.
func addEnv(env map[string]string, c *config.Config, where string, entries []string) error {
	for _, entry := range entries {
		name, value, given := strings.Cut(entry, "=")
		if !given {
			var ok bool
			if value, ok = c.Lookup(name); !ok {
				return Usage("%s%s: there is no such variable here to take the value from", where, name)
			}
		}
		env[name] = value
	}
	return spec.ValidateEnv(env)
}

// readEnvFile returns the entries of a file: its lines but for empty ones and comments.
func readEnvFile(name string) ([]string, error) {
	data, err := readSmall(name)
	if err != nil {
		return nil, Usage("--env-file %s: %w", name, err)
	}
	var entries []string
	for line := range bytes.Lines(data) {
		text := strings.TrimRight(string(line), "\r\n")
		if trimmed := strings.TrimSpace(text); trimmed != "" && trimmed[0] != '#' {
			entries = append(entries, text)
		}
	}
	return entries, nil
}

func readSmall(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEnvFile+1))
	if err == nil && len(data) > maxEnvFile {
		err = fmt.Errorf("it has more than %d bytes", maxEnvFile)
	}
	return data, cause(err)
}

// cause takes the name off an error of package os: the message has it already.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
