package portcmd

import (
	"context"
	"io"
	"net"

	"github.com/spf13/cobra"

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
@NAME for an abstract one. The end of our input is passed on, and dial ends when the other
side has ended; a connection that is reset is an error.`,
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
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	sent := make(chan error, 1)
	go func() { // it may wait for our input when all else is over
		_, err := io.Copy(conn, env.Stdin)
		if err == nil {
			err = closeWrite(conn)
		}
		sent <- err
	}()
	_, err = io.Copy(env.Stdout, conn)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// closeWrite ends this side of a connection.
func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return conn.Close()
}
