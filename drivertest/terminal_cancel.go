package drivertest

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/berth-dev/berth"
)

// terminalCancelCases are about openings that nobody waits for any more.
func terminalCancelCases() []Case {
	return []Case{
		{Name: "TerminalOpeningIsGivenUp", Rule: "A cancelled OpenTerminal leaves no terminal that runs: nobody has its id.", Need: all(needTerminals, needShell), Run: terminalGivenUp},
	}
}

func terminalGivenUp(ctx context.Context, t T, e *Env) {
	begun := time.Now()
	first, err := e.Sandbox.OpenTerminal(ctx, berth.TerminalOptions{Args: []string{"sleep", "300"}, Env: map[string]string{markName: e.Mark}})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	e.killAfter(e.Sandbox, first.ID())
	first.Detach()
	takes := time.Since(begun)
	running := map[string]bool{first.ID(): true}
	for range 20 {
		hurry, cancel := context.WithTimeout(ctx, rand.N(2*takes+time.Millisecond))
		term, err := e.Sandbox.OpenTerminal(hurry, berth.TerminalOptions{Args: []string{"sleep", "300"}, Env: map[string]string{markName: e.Mark}})
		cancel()
		if err != nil {
			continue
		}
		e.killAfter(e.Sandbox, term.ID())
		running[term.ID()] = true
		term.Detach()
	}
	var more []string
	ended := e.Eventually(ctx, func() bool {
		more = nil
		list, err := e.Sandbox.Terminals(ctx)
		for _, term := range list {
			if term.Running() && !running[term.ID] {
				more = append(more, term.ID)
			}
		}
		return err == nil && more == nil
	})
	if !ended {
		t.Errorf("%q run, and nobody has them", more)
	}
}
