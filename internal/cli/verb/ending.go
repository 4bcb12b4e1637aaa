package verb

import (
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/spec"
)

// Ending is how a command or a job ended, as JSON has it: the fields are those of
// spec.Exit.
type Ending struct {
	ExitCode       int       `json:"exit_code"`
	Signal         int       `json:"signal"`
	TimedOut       bool      `json:"timed_out"`
	NoOutput       bool      `json:"no_output"`
	OOM            *spec.OOM `json:"oom,omitempty"`
	HostExecutable []string  `json:"host_executable,omitempty"`
	// HostExecutableB64 are the same paths, where one of them is not UTF-8.
	HostExecutableB64 [][]byte `json:"host_executable_b64,omitempty"`
	Hint              string   `json:"hint,omitempty"`
}

// NewEnding is the Ending of an exit.
func NewEnding(e spec.Exit) Ending {
	return Ending{
		ExitCode: e.Code, Signal: e.Signal, TimedOut: e.TimedOut, NoOutput: e.NoOutput, OOM: e.OOM, Hint: e.Hint,
		HostExecutable: e.HostExecutable, HostExecutableB64: console.Exact(e.HostExecutable),
	}
}
