//go:build linux

package agent

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-dev/berth/internal/agent/limit"
	"github.com/berth-dev/berth/internal/agent/peer"
	"github.com/berth-dev/berth/internal/agent/proc"
	"github.com/berth-dev/berth/internal/agent/wall"
)

// The exit statuses of the guest binary.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// errUsage marks a command line that makes no sense.
var errUsage = errors.New("usage: berth-guest serve|relay|version [flags]")

// Main runs the verb that args begin with and returns the exit status:
//
//	serve    be the guest of a place; returns when the place has ended
//	relay    join stdin and stdout to a guest's socket
//	version  print the version
//	launch   become a command: for serve's own use
//	join     become a program in control groups
func Main(args []string) int {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	var err error
	switch verb {
	case "serve":
		err = serve(args, before(args))
	case "join":
		err = limit.Join(args)
	case "launch":
		err = proc.Become()
	case "relay":
		err = runRelay(args, os.Stdin, os.Stdout)
	case "version":
		fmt.Println(Version())
	default:
		err = errUsage
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errUsage), errors.Is(err, limit.ErrUsage):
		fmt.Fprintln(os.Stderr, "berth-guest:", err)
		return exitUsage
	default:
		fmt.Fprintln(os.Stderr, "berth-guest:", err)
		return exitFailed
	}
}

// before returns the arguments of this program that stand before the verb whose own are
// args.
func before(args []string) []string { return os.Args[1 : len(os.Args)-len(args)-1] }

// config is what the arguments of serve say.
type config struct {
	id          string
	workdir     string
	makeWorkdir bool
	root        string // what the file operations keep to; "": the place is the boundary

	// Exactly one of the three says where the host comes from.
	listenFD       int
	listenAbstract string
	stdio          bool
	peer           peer.Policy
	sharedNet      bool   // an engine's container has the network of others
	direct         string // where a host beside the engine makes its sockets; "": nowhere

	ephemeral   bool
	orphanAfter time.Duration // ephemeral: the end, so long after the last client
	resume      time.Duration // how long a command without a key outlives its connection
	idle        time.Duration // the end, after so long without client and command; 0: never
	ttl         time.Duration // the end, so long after the start; 0: never
	grace       time.Duration // between TERM and KILL when the place ends by itself
	notice      string
	state       string // where jobs are kept; "": nowhere

	limit   limit.Config
	wall    wall.Config
	confine bool     // commands, by package confine
	self    []string // the arguments, before a verb, that make this program a guest
}

func parseServe(args []string) (*config, error) {
	var c config
	var policy string
	f := newFlags("serve")
	f.StringVar(&c.id, "id", "", "identity of the place")
	f.StringVar(&c.workdir, "workdir", "", "directory in which commands run")
	f.StringVar(&c.root, "workspace-root", "", "directory that the file operations keep to")
	f.BoolVar(&c.makeWorkdir, "make-workdir", false, "make the workdir where it is missing")
	f.IntVar(&c.listenFD, "listen-fd", -1, "descriptor of a listening unix socket")
	f.StringVar(&c.listenAbstract, "listen-abstract", "", "name of an abstract unix socket to listen on")
	f.BoolVar(&c.stdio, "stdio", false, "serve one host on stdin and stdout, and end with it")
	f.StringVar(&c.direct, "direct", "", "directory in which a host outside makes sockets for us to connect to")
	f.BoolVar(&c.sharedNet, "shared-network", false, "the network is not the place's own")
	f.StringVar(&policy, "peer", string(peer.User), "who may connect: outside, engine or user")
	f.BoolVar(&c.ephemeral, "ephemeral", false, "end when no client is left")
	f.DurationVar(&c.orphanAfter, "orphan-after", 30*time.Second, "how long an ephemeral place outlives its last client")
	f.DurationVar(&c.resume, "resume", 10*time.Second, "how long a command outlives its connection")
	f.DurationVar(&c.idle, "idle", 0, "end after so long without client and command")
	f.DurationVar(&c.ttl, "ttl", 0, "end so long after the start")
	f.DurationVar(&c.grace, "grace", 5*time.Second, "time between TERM and KILL at the end")
	f.Func("unset-env", "`name` of a variable of our own that no command gets; repeatable", os.Unsetenv)
	f.StringVar(&c.notice, "notice", "", "what a person should know about the place")
	f.StringVar(&c.state, "state", "", "directory of the place's state: without it there are no jobs")
	c.wall.Flags(f)
	f.BoolVar(&c.confine, "confine", false, "keep commands from sockets of others and from parts of the kernel")
	c.limit.Flags(f)
	if err := f.Parse(args); err != nil {
		return nil, fmt.Errorf("%w: serve: %w", errUsage, err)
	}
	c.peer = peer.Policy(policy)
	ways := 0
	for _, given := range []bool{c.listenFD >= 0, c.listenAbstract != "", c.stdio} {
		if given {
			ways++
		}
	}
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("%w: serve: unexpected argument %q", errUsage, f.Arg(0))
	case c.id == "" || len(c.id) > maxIDBytes:
		return nil, fmt.Errorf("%w: serve: --id needs 1 to %d bytes", errUsage, maxIDBytes)
	case !filepath.IsAbs(c.workdir):
		return nil, fmt.Errorf("%w: serve: --workdir needs an absolute path", errUsage)
	case c.state != "" && !filepath.IsAbs(c.state):
		return nil, fmt.Errorf("%w: serve: --state needs an absolute path", errUsage)
	case c.root != "" && !filepath.IsAbs(c.root):
		return nil, fmt.Errorf("%w: serve: --workspace-root needs an absolute path", errUsage)
	case ways != 1:
		return nil, fmt.Errorf("%w: serve: one of --listen-fd, --listen-abstract and --stdio is needed", errUsage)
	case !c.peer.Known():
		return nil, fmt.Errorf("%w: serve: --peer is outside, engine or user", errUsage)
	case min(c.orphanAfter, c.resume, c.idle, c.ttl, c.grace) < 0:
		return nil, fmt.Errorf("%w: serve: a duration is negative", errUsage)
	}
	c.workdir = filepath.Clean(c.workdir)
	if c.state != "" {
		c.state = filepath.Clean(c.state)
	}
	return &c, nil
}

// maxIDBytes bounds the identity of a place and of a command.
const maxIDBytes = 256

func newFlags(verb string) *flag.FlagSet {
	f := flag.NewFlagSet(verb, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	return f
}
