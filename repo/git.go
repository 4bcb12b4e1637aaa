package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/spec"
)

const (
	// maxAnswer bounds what git says where it is asked something short.
	maxAnswer = 1 << 20
	// maxWords bounds what is kept of git's complaints.
	maxWords = 16 << 10
	// outputDelay is how long git's output is waited for after its end.
	outputDelay = 2 * time.Second
	// patience bounds a run of git that has little to do: one that waits for a pipe which a
	// place has put where git reads never ends.
	patience = 2 * time.Minute
)

// call is one run of git.
type call struct {
	args []string
	// dir is where git runs. It is no work tree that a place has had.
	dir string
	env []string
	// config goes before all files of configuration: names and values in turn.
	config []string
	// stdout gets the output; nil: it is the answer, of at most maxAnswer bytes.
	stdout io.Writer
	// long: it has much to do, and only ctx bounds it.
	long bool
	// fatal is what git only warns of, and makes its answer worth nothing; "": nothing.
	fatal string
	// scrub takes secrets out of what git says.
	scrub func(string) string
}

// alwaysConfig keeps git from running what others left for it, and from work in the
// background.
var alwaysConfig = []string{
	"core.hooksPath", os.DevNull, "core.fsmonitor", "false", "core.untrackedCache", "false", "core.splitIndex", "false",
	"gc.auto", "0", "maintenance.auto", "false", "credential.helper", "", "core.askPass", "", "worktree.useRelativePaths", "false",
}

// alwaysEnv has git ask nobody and speak plainly.
var alwaysEnv = []string{
	"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1",
	"GIT_SSH_COMMAND=ssh -oBatchMode=yes", "LC_ALL=C",
}

// gitError is git's own failure.
type gitError struct {
	verb   string
	status int
	words  string // what it said, on one line
}

func (e *gitError) Error() string {
	if e.words == "" {
		return fmt.Sprintf("git %s ended with status %d", e.verb, e.status)
	}
	return "git " + e.verb + ": " + e.words
}

// run runs git and returns its answer. The error is that of ctx, a *gitError, or a
// *spec.Error where there is no git.
func (c call) run(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	bounded := ctx
	if !c.long {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	cmd := exec.CommandContext(bounded, "git", c.args...)
	cmd.Dir, cmd.WaitDelay = c.dir, outputDelay
	cmd.Env = slices.Concat(inherited(), alwaysEnv, c.env, configEnv(slices.Concat(alwaysConfig, c.config)))
	group(cmd)
	answer, words := &head{most: maxAnswer}, &tail{}
	cmd.Stdout, cmd.Stderr = answer, words
	if c.stdout != nil {
		cmd.Stdout = c.stdout
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case bounded.Err() != nil:
		return "", &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("git %s has not ended within %v", c.args[0], patience), Hint: "something in the repository keeps it waiting: see if git works there by hand"}
	case errors.Is(err, exec.ErrNotFound):
		return "", &spec.Error{Code: spec.CodeUnsupported, Err: errors.New("there is no git on this machine"), Hint: "install git; it is looked up on PATH"}
	case errors.As(err, &exit):
		return "", &gitError{verb: c.args[0], status: exit.ExitCode(), words: c.said(words)}
	case err != nil:
		return "", &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("git %s: %w", c.args[0], err)}
	case c.fatal != "" && bytes.Contains(words.kept, []byte(c.fatal)):
		return "", &gitError{verb: c.args[0], words: c.said(words)}
	case answer.over:
		return "", &spec.Error{Code: spec.CodeTooLarge, Err: fmt.Errorf("git %s said more than %d bytes", c.args[0], maxAnswer)}
	}
	return answer.String(), nil
}

// said is the last thing that git said, without what is secret and what is only noise.
func (c call) said(words *tail) string {
	var lines []string
	for line := range strings.FieldsFuncSeq(string(words.kept), func(r rune) bool { return r == '\n' || r == '\r' }) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "hint:") {
			lines = append(lines, line)
		}
	}
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "fatal:") || strings.HasPrefix(l, "error:") }); i >= 0 {
		lines = lines[i:]
	}
	text := strings.Join(lines, "; ")
	if c.scrub != nil {
		text = c.scrub(text)
	}
	return text
}

// failed makes the failure of a git that was asked for something a *spec.Error.
func failed(err error, code spec.Code) error {
	var git *gitError
	if errors.As(err, &git) {
		return &spec.Error{Code: code, Err: git}
	}
	return err
}

// inherited is the environment of this process without what would tell git which
// repository is meant, what it is configured like, or whom it may ask.
func inherited() []string {
	return slices.DeleteFunc((&exec.Cmd{}).Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		name = strings.ToUpper(name)
		return strings.HasPrefix(name, "GIT_") || name == "SSH_ASKPASS" || name == "LC_ALL" || name == "GH_TOKEN" || name == "GITHUB_TOKEN" || name == "BERTH_GIT_TOKEN"
	})
}

// configEnv is configuration as an environment has it: it is in no list of processes, and
// a name may hold anything.
func configEnv(pairs []string) []string {
	env := []string{"GIT_CONFIG_COUNT=" + strconv.Itoa(len(pairs)/2)}
	for i := 0; i+1 < len(pairs); i += 2 {
		n := strconv.Itoa(i / 2)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+pairs[i], "GIT_CONFIG_VALUE_"+n+"="+pairs[i+1])
	}
	return env
}

// head keeps the beginning of what is written to it.
type head struct {
	bytes.Buffer
	most int
	over bool
}

func (h *head) Write(p []byte) (int, error) {
	fits := min(len(p), h.most-h.Len())
	h.over = h.over || fits < len(p)
	h.Buffer.Write(p[:fits])
	return len(p), nil
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - maxWords; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}
