package portcmd

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
)

// NewDial returns the verb dial.
func NewDial(env *verb.Env) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "dial --key KEY [FLAG]... ADDRESS",
		Short: "Connect to what listens in a sandbox",
		Long: `Dial connects our stdin and stdout to what listens in the sandbox on ADDRESS: PORT of its
loopback, HOST:PORT as the sandbox sees it, the path of a unix socket with a / in it, or
@NAME for an abstract one. Each end is passed on by itself: the other side's ends our stdout,
and dial goes on until our input has ended too, or the other side takes nothing more of it.
A terminal, which has no end of its own, does not keep dial when the other side has ended.
A connection that is reset is an error, and so is input that cannot be read or sent; like
an interrupt it resets the connection, so that nobody takes a part for the whole.`,
		Example: `  printf 'GET / HTTP/1.0\r\n\r\n' | berth dial --key session-1 8080
  berth dial --key session-1 ./app.sock <request >answer
  ssh -o ProxyCommand='berth dial --key session-1 22' agent@sandbox`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return verb.Usage("ADDRESS is missing: it says what to connect to")
			case len(args) > 1:
				return verb.Usage("unexpected argument %q", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return dial(cmd, env, key, args[0]) },
	}
	verb.AddKey(cmd.Flags(), &key, "`KEY` of the sandbox")
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	env.AddCompletions(cmd)
	cmd.ValidArgsFunction = completePorts(env, &key)
	return cmd
}

func dial(cmd *cobra.Command, env *verb.Env, key, word string) error {
	ctx := cmd.Context()
	to, err := parseAddress(word, false)
	if err != nil {
		return err
	}
	sb, _, err := env.Attach(ctx, key)
	if err != nil {
		return err
	}
	defer verb.Detach(ctx, sb)
	conn, err := sb.Dial(ctx, to.network, to.text)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { reset(conn) })()
	err = exchange(ctx, conn, env.Stdin, env.Stdout)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		reset(conn)
	}
	return err
}

// exchange carries in to a connection and what its peer says to out, until both have
// ended. What breaks either way is its error; it may leave the reading of in behind.
func exchange(ctx context.Context, conn net.Conn, in io.Reader, out io.Writer) error {
	sent := make(chan error, 1)
	go func() {
		to := &target{Conn: conn}
		_, err := io.Copy(to, in)
		switch {
		case err == nil:
			err = closeWrite(conn)
		case !to.failed:
			err = fmt.Errorf("our input: %w", err)
			defer reset(conn) // nobody takes it for the end
		}
		sent <- err // the peer may still have something to say
	}()
	if _, err := io.Copy(out, conn); err != nil {
		select {
		case first := <-sent:
			if first != nil {
				return first
			}
		default:
		}
		return err
	}
	if console.Terminal(in) {
		return nil // it has no end of its own
	}
	if out, ok := out.(io.Closer); ok {
		out.Close() // whoever reads it may be what our input waits for
	}
	select {
	case err := <-sent:
		if err == nil {
			settle(ctx, conn)
		}
		return err
	case <-finished(conn):
		return closeWrite(conn) // an error, unless it is that both have ended
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settleTime is how long a connection that both sides have ended waits for the peer to take
// what was sent.
const settleTime = 10 * time.Second

func settle(ctx context.Context, conn net.Conn) {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-finished(conn):
	case <-timer.C:
	case <-ctx.Done():
	}
}

// finished is closed when the other side of a connection takes nothing more.
func finished(conn net.Conn) <-chan struct{} {
	if f, ok := conn.(interface{ Finished() <-chan struct{} }); ok {
		return f.Finished()
	}
	return nil
}

// closeWrite ends this side of a connection.
func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return conn.Close()
}
