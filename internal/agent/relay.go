//go:build linux

package agent

import (
	"fmt"
	"io"

	"github.com/berth-dev/berth/internal/agent/proc"
	"github.com/berth-dev/berth/internal/agent/relay"
)

// runRelay is the verb that joins in and out to a guest's socket.
func runRelay(args []string, in io.Reader, out io.Writer) error {
	if err := proc.Hide(); err != nil {
		return err
	}
	var o relay.Options
	f := newFlags("relay")
	f.StringVar(&o.Abstract, "abstract", "", "name of the guest's abstract socket")
	f.StringVar(&o.Path, "path", "", "path of the guest's socket")
	f.IntVar(&o.PID, "peer-pid", 0, "pid that the guest must have, 0 for any")
	if err := f.Parse(args); err != nil {
		return fmt.Errorf("%w: relay: %w", errUsage, err)
	}
	if f.NArg() > 0 || (o.Abstract == "") == (o.Path == "") {
		return fmt.Errorf("%w: relay: one of --abstract and --path is needed", errUsage)
	}
	return relay.Run(o, in, out)
}
