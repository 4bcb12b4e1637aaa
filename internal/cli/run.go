package cli

import (
	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/repocmd"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/internal/isolate"
)

func newRun(a *app) *cobra.Command {
	var place placeFlags
	var command commandFlags
	var repository repocmd.Flags
	cmd := &cobra.Command{
		Use:   "run [FLAG]... [--] COMMAND [ARG]...",
		Short: "Run a command in a sandbox of its own",
		Long: `Run makes a sandbox, runs the command in it with our input, output and signals, and
removes the sandbox. Without flags that is a kernel sandbox on this machine (guard): the
command reads what it could read anyway but for the credentials below, writes nothing but
the current directory, /tmp and /var/tmp, which are the machine's own, and has no network.

With --key the sandbox is kept, and used again if it exists.

With --worktree it works in a git work tree on a branch of its own. One that this run has
made is removed at the end if nothing would be lost; what was committed stays on the branch.

Everything from the first word that is no flag belongs to the command. It is no
shell's line: write sh -c '...' for one. It gets no terminal, whatever ours is. Three
interrupts within two seconds kill it.`,
		Example: `  berth run -- npm test
  mkdir -p ~/.cache/go-build && berth run --writable ~/.cache/go-build -- go test ./...
  docker pull python:3.14-slim
  berth run --backend docker --image python:3.14-slim -- python -c 'print(1)'
  berth run --timeout 0 -- npm run dev
  berth run --worktree try-1 -- sh -c 'make && git commit -am "try one"'
  git ls-files | berth run -- wc -l
  berth run --json -- make | jq .exit_code`,
		Args:        verb.NeedCommand,
		Annotations: map[string]string{verb.PassThrough: "yes", notesKey: environmentNote + "\n\n" + toolsNote + "\n\n" + hiddenNote()},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.run(cmd, &place, &command, &repository, args)
		},
	}
	cmd.Flags().SetInterspersed(false)
	place.add(cmd.Flags())
	command.add(cmd.Flags())
	repository.Add(&a.Env, cmd)
	a.AddCompletions(cmd)
	return cmd
}

// environmentNote stands in the help of the verbs that run a command.
const environmentNote = `ENVIRONMENT
  On this machine the command gets PATH, HOME, SHELL, USER, LOGNAME, LANG, LC_*, TERM, TMPDIR and
  TZ of ours, and in other places what is there. --env NAME (our value) or --env NAME=VALUE adds to
  that: GOFLAGS, GOPROXY, HTTPS_PROXY, VIRTUAL_ENV and the like are not passed on by themselves.`

const toolsNote = `WHAT COMMON TOOLS NEED IN GUARD (a directory that is to be writable has to exist)
  go test ./...        --writable ~/.cache/go-build
  go get, go mod       --network open --writable ~/.cache/go-build --writable ~/go/pkg/mod
  npm ci               --network open --writable ~/.npm
  pip, in a venv here  --network open --writable ~/.cache/pip
  cargo build          --network open --env CARGO_HOME="$PWD/target/cargo"
  What a command writes to a cache, you run outside later: for code that you do not trust give it a
  cache of its own, --env GOCACHE="$PWD/.cache/go-build" say.`

// hiddenNote lists what guard hides.
func hiddenNote() string {
	var names []string
	for _, kept := range isolate.HiddenInHome() {
		names = append(names, kept.Names...)
	}
	return "WHAT GUARD HIDES OF THE HOME DIRECTORY (what is there when the sandbox starts; --hide adds)\n" + wrap(names, ", ", "  ", 98)
}

func (a *app) run(cmd *cobra.Command, place *placeFlags, flags *commandFlags, repository *repocmd.Flags, args []string) (err error) {
	c, err := flags.command(a.Config, args)
	if err != nil {
		return err
	}
	a.Conceal(c.Env)
	d, b, err := a.Open()
	if err != nil {
		return err
	}
	s, err := place.spec(a.Config, b)
	if err != nil {
		return err
	}
	use, err := repository.Begin(cmd.Context(), &a.Env, &s, b, place.workdir != "")
	if err != nil {
		return err
	}
	kept := false
	defer func() { use.End(cmd.Context(), kept) }()
	sb, err := use.Provision(cmd.Context(), d, func() (*berth.Sandbox, error) { return a.provision(cmd.Context(), d, s, place.replace) })
	if err != nil {
		return err
	}
	kept = s.Key != ""
	defer func() {
		end := sb.Destroy
		if s.Key != "" {
			end = sb.Detach
		}
		if failed := verb.Cleanup(cmd.Context(), end); failed != nil {
			a.Note("run: the sandbox was not tidied up, its guest will end it: %v", failed)
			kept = true // it may still work there
		}
	}()
	return a.execute(cmd, sb, c, flags.noStdin)
}
