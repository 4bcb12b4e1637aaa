package filescmd

import (
	"context"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/transfer"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// pathsHelp is said by every verb that takes a path of a sandbox.
const pathsHelp = `KEY:PATH is a path of the sandbox that has the key: absolute, or relative to its
workdir.`

// location is a path of a sandbox, or of this machine.
type location struct {
	key  string // "": this machine
	path string
}

func (l location) remote() bool { return l.key != "" }

// String is how messages name it.
func (l location) String() string {
	if l.remote() {
		return l.key + ":" + l.path
	}
	return l.path
}

// parseLocation reads KEY:PATH, or a path of this machine: one without a colon, or with
// a slash before the first one.
func parseLocation(arg string) (location, error) {
	key, rest, ok := strings.Cut(arg, ":")
	if arg == "" {
		return location{}, verb.Usage("a path is empty")
	}
	if !ok || strings.Contains(key, "/") || runtime.GOOS == "windows" && isDrive(key) {
		return location{path: arg}, nil
	}
	if spec.ValidateKey(spec.Key(key)) != nil {
		return location{}, verb.Usage("%q: %q is no key of a sandbox; a path of this machine with a colon is written ./%s", arg, key, arg)
	}
	return location{key: key, path: rest}, nil
}

func isDrive(s string) bool {
	return len(s) == 1 && (s[0]|0x20) >= 'a' && (s[0]|0x20) <= 'z' || strings.Contains(s, `\`)
}

// parseRemote reads KEY:PATH; KEY: and, if bare is set, KEY alone mean the workdir.
func parseRemote(arg string, bare bool) (location, error) {
	if bare && !strings.Contains(arg, ":") {
		arg += ":"
	}
	l, err := parseLocation(arg)
	if err == nil && !l.remote() {
		err = verb.Usage("%q is no path of a sandbox: want KEY:PATH", arg)
	}
	if l.path == "" {
		l.path = "."
	}
	return l, err
}

// places are the sandboxes that a verb works with.
type places struct {
	env   *verb.Env
	ctx   context.Context // of the verb
	byKey map[string]*transfer.Place
	held  []*berth.Sandbox
}

func newPlaces(env *verb.Env, cmd *cobra.Command) *places {
	return &places{env: env, ctx: cmd.Context(), byKey: map[string]*transfer.Place{}}
}

// get attaches to a sandbox the first time that it is wanted.
func (p *places) get(key string) (*transfer.Place, error) {
	if place, ok := p.byKey[key]; ok {
		return place, nil
	}
	sb, _, err := p.env.Attach(p.ctx, key)
	if err != nil {
		return nil, err
	}
	p.held = append(p.held, sb)
	p.byKey[key] = &transfer.Place{Key: key, FS: sb.Files()}
	return p.byKey[key], nil
}

// files are those of a sandbox.
func (p *places) files(key string) (files.FS, error) {
	place, err := p.get(key)
	if err != nil {
		return nil, err
	}
	return place.FS, nil
}

// close lets go of all sandboxes.
func (p *places) close() {
	for _, sb := range p.held {
		verb.Detach(p.ctx, sb)
	}
}

// common adds what every verb for files has.
func common(env *verb.Env, cmd *cobra.Command) *cobra.Command {
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	env.AddCompletions(cmd)
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = (&completer{env: env}).complete
	}
	return cmd
}

// needPaths refuses a command line with fewer arguments than that.
func needPaths(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return verb.Usage("an argument is missing: %s", cmd.UseLine())
		case most > 0 && len(args) > most:
			return verb.Usage("unexpected argument %q", args[most])
		}
		return nil
	}
}

// completer completes KEY:PATH.
type completer struct {
	env *verb.Env
	// local: paths of this machine are offered too.
	local bool
}

func (c *completer) complete(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	directive := cobra.ShellCompDirectiveNoSpace
	if !c.local {
		directive |= cobra.ShellCompDirectiveNoFileComp
	}
	if c.env.Prepare(cmd) != nil {
		return nil, directive
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), verb.CompletionTime)
	defer cancel()
	if !strings.Contains(word, ":") {
		return c.env.Keys(ctx, ":"), directive
	}
	l, err := parseRemote(word, false)
	if err != nil {
		return nil, directive
	}
	return c.names(ctx, l, word), directive
}

// names offers what is in the directory that the word names, or begins to.
func (c *completer) names(ctx context.Context, l location, word string) []string {
	sb, _, err := c.env.Attach(ctx, l.key)
	if err != nil {
		return nil
	}
	defer verb.Detach(ctx, sb)
	typed := strings.TrimPrefix(word, l.key+":")
	head := typed[:strings.LastIndexByte(typed, '/')+1]
	dir := head
	if dir == "" {
		dir = "."
	}
	var words []string
	for info, err := range sb.Files().List(ctx, dir) {
		if err != nil || len(words) == 1000 {
			break
		}
		if console.Clean(info.Name) != info.Name || !strings.HasPrefix(head+info.Name, typed) {
			continue // a shell could not have it typed
		}
		word := l.key + ":" + head + info.Name
		if info.IsDir() {
			word += "/"
		}
		words = append(words, word)
	}
	return words
}
