package verb

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/berth-dev/berth/spec"
)

// Grace is the flag that says how long there is between TERM and KILL.
type Grace struct{ flag time.Duration }

// Add adds the flag to a verb.
func (g *Grace) Add(flags *pflag.FlagSet) {
	flags.DurationVar(&g.flag, "grace", spec.DefaultGrace, "`DURATION` between TERM and KILL; 0: KILL at once")
}

// Duration is the grace as the library has it: negative for none.
func (g *Grace) Duration() (time.Duration, error) {
	switch {
	case g.flag < 0:
		return 0, Usage("--grace %v is negative", g.flag)
	case g.flag == 0:
		return -1, nil
	}
	return g.flag, nil
}
