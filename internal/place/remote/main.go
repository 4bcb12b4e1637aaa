package remote

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/internal/environ"
	"github.com/berth-dev/berth/internal/place"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Main is the far side: it serves one request on the standard streams, for a near
// side that has no other hold on this machine than a shell. args are the verb and its
// flags. It returns the exit status: 0 if an answer was given, an error of the place
// included.
func Main(args []string) int {
	return serve(context.Background(), args, os.Stdin, os.Stdout, os.Stderr)
}

func serve(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	const usage = "usage: berth-guest place connect|list|reap|stop [--dir DIR]"
	if len(args) == 0 {
		fmt.Fprintln(errs, usage)
		return 2
	}
	flags := flag.NewFlagSet("place", flag.ContinueOnError)
	flags.SetOutput(errs)
	dir := flags.String("dir", "", "the state directory")
	if err := flags.Parse(args[1:]); err != nil {
		return 2
	}
	verb, ok := map[string]func(context.Context, *place.Root, *Request) (*Answer, net.Conn, error){
		VerbConnect: connect, VerbList: list, VerbReap: reap, VerbStop: stop,
	}[args[0]]
	if !ok || flags.NArg() > 0 {
		fmt.Fprintln(errs, usage)
		return 2
	}
	var req Request
	if err := wire.ReadMessage(in, &req, 0); err != nil {
		fmt.Fprintln(errs, "berth-guest place: request:", err)
		return 1
	}
	answer, conn, err := answerTo(ctx, verb, *dir, &req)
	if err != nil {
		answer = &Answer{Err: wire.FromError(err)}
	}
	if conn != nil {
		defer conn.Close()
	}
	if err := wire.WriteMessage(out, answer); err != nil {
		return 1
	}
	if conn == nil {
		return 0
	}
	if err := relay(conn, in, out); err != nil {
		fmt.Fprintln(errs, "berth-guest place:", err)
		return 1
	}
	return 0
}

func answerTo(ctx context.Context, verb func(context.Context, *place.Root, *Request) (*Answer, net.Conn, error), dir string, req *Request) (*Answer, net.Conn, error) {
	root, err := rootOf(dir, req.Owner)
	if err != nil {
		return nil, nil, err
	}
	return verb(ctx, root, req)
}

// rootOf is the state directory of this machine, with this program as the guest.
func rootOf(dir, owner string) (*place.Root, error) {
	if owner == "" {
		return nil, spec.New(spec.CodeInvalid, "the request names no owner")
	}
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, &spec.Error{Code: spec.CodeUnavailable, Err: err, Hint: "set HOME for the user of this machine"}
		}
		dir = filepath.Join(home, ".local", "state", "berth", "far")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: err}
	}
	return &place.Root{Dir: dir, Owner: owner, BaseEnv: environ.Base(os.Environ()), Guest: func(_ context.Context, l place.Launch) (place.Plan, error) {
		return place.Plan{Path: self, Args: l.Args, Guest: []string{self}}, nil
	}}, nil
}

func connect(ctx context.Context, root *place.Root, req *Request) (*Answer, net.Conn, error) {
	var conn net.Conn
	var rec place.Record
	var err error
	switch req.Mode {
	case ModeProvision:
		var s *spec.Spec
		if s, err = req.TakeSpec(); err != nil {
			return nil, nil, err
		}
		if s.Isolation != spec.IsolationNone || s.Network != spec.NetworkOpen {
			return nil, nil, spec.New(spec.CodeUnsupported, "the far side knows isolation none with an open network only")
		}
		conn, rec, err = root.Provision(ctx, s, req.provisionOptions())
	case ModeAttach:
		conn, rec, err = root.Attach(ctx, req.Key)
	case ModeDial:
		conn, err = root.Dial(ctx, req.ID)
		return &Answer{}, conn, err
	default:
		err = spec.New(spec.CodeInvalid, "the request has no mode")
	}
	return &Answer{Record: &rec}, conn, err
}

func list(ctx context.Context, root *place.Root, _ *Request) (*Answer, net.Conn, error) {
	owned, err := root.Owned(ctx)
	return &Answer{Owned: owned}, nil, err
}

func reap(ctx context.Context, root *place.Root, req *Request) (*Answer, net.Conn, error) {
	return &Answer{}, nil, root.Reap(ctx, req.Key, req.endOptions())
}

func stop(ctx context.Context, root *place.Root, req *Request) (*Answer, net.Conn, error) {
	return &Answer{}, nil, root.Stop(ctx, req.Key, req.endOptions())
}

// relay copies both ways until either side ends. What is then on its way to the guest
// is lost on purpose: the near side is gone, and resumes with what arrived. The error
// is that of a guest that died before it said anything.
func relay(conn net.Conn, in io.Reader, out io.Writer) error {
	done := make(chan error, 2)
	go func() {
		_, _ = io.Copy(conn, in)
		done <- nil
	}()
	go func() {
		_, err := io.Copy(out, conn)
		var said *spec.Error
		if !errors.As(err, &said) {
			err = nil
		}
		done <- err
	}()
	return <-done
}
