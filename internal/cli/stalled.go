package cli

import (
	"time"

	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// patience is how long the reader of our output may keep us after the command was told to
// end: its result waits behind the output that nobody takes.
const patience = 5 * time.Second

// outlived returns a channel that gets the status to leave with when a command was told to
// end, has had its grace, and is kept back only by output that its reader does not take.
// It never does while output flows, nor after ended is closed.
func (a *app) outlived(ended <-chan struct{}, outputs ...*passThrough) <-chan verb.Status {
	leave := make(chan verb.Status, 1)
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(patience / 10):
			}
			now, told := time.Now(), a.signals.toldToEnd()
			if told.IsZero() || now.Sub(told) < spec.DefaultGrace+patience {
				continue
			}
			for _, out := range outputs {
				if out.stuck(now, patience) {
					leave <- verb.Status(128 + int(spec.SIGTERM))
					return
				}
			}
		}
	}()
	return leave
}
