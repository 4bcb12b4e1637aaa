package drivertest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/spec"
)

// hostileTree makes processes that hide in every way that a shell knows: sessions of
// their own, dead parents, clean environments, deafness to TERM, a stop, closed output.
// All bear $1 as their name.
const hostileTree = `m=$1 loop='while :; do sleep 1; done' deaf='trap "" TERM HUP INT; while :; do sleep 1; done'
sh -c "$loop" "$m" &
sh -c "$deaf" "$m" &
sh -c 'kill -STOP $$; while :; do sleep 1; done' "$m" &
sh -c "exec >&- 2>&-; $loop" "$m" &
( ( sh -c "$loop" "$m" & ) & )
( ( env -i PATH="$PATH" sh -c "$deaf" "$m" & ) & )
if command -v setsid >/dev/null; then
	setsid sh -c "$loop" "$m" &
	( ( env -i PATH="$PATH" setsid sh -c "$deaf" "$m" & ) & )
	( ( env -i PATH="$PATH" setsid sh -c '( ( sh -c "$1" "$0" & ) & ) & :' "$m" "$loop" & ) & )
fi
sleep 0.2
echo ready
while :; do sleep 1; done`

// findNamed prints the pids of the processes that bear $n, from the environment so that
// the one who looks does not. A zombie has no arguments, so it is not found.
const findNamed = `if echo x | grep -qzF x 2>/dev/null; then
	for f in $(echo "$n" | grep -lszF -f - /proc/[0-9]*/cmdline); do f=${f%/cmdline}; echo "${f#/proc/}"; done
else
	for d in /proc/[0-9]*; do
		{ x=$(cat "$d/cmdline"); } 2>/dev/null
		case $x in *"$n"*) echo "${d#/proc/}" ;; esac
	done
fi`

// killHostileTrees has hostile trees ended in each of the three ways: none is left where
// the place has proof, and what is left is named where it has not.
func killHostileTrees(ctx context.Context, t T, e *Env) {
	count := 3
	if e.Options.Soak {
		count = 15
	}
	for n := range count {
		name := "tree-" + randomHex()
		c := e.Cmd(ctx, "/bin/sh", "-c", hostileTree, "sh", name)
		c.Key, c.WaitDelay = name, short
		if n%3 == 0 {
			c.Timeout = 2 * time.Second
		}
		e.startReady(t, c)
		switch n % 3 {
		case 1:
			if err := c.Kill(ctx); err != nil {
				t.Errorf("kill: %v", err)
			}
		case 2:
			if _, ok := e.terminate(ctx, t, e.Sandbox, name, short); !ok {
				_ = c.Kill(ctx)
			}
		}
		var exit *berth.ExitError
		if err := c.Wait(); !errors.As(err, &exit) {
			t.Fatalf("wait: %v; want an exit", err)
		}
		e.wantKilled(t, exit.Kill)
		e.wantNamed(ctx, t, name, exit.Exit)
	}
}

// wantNamed wants nothing to be left of a tree, or no more than its exit owns to.
func (e *Env) wantNamed(ctx context.Context, t T, name string, exit spec.Exit) {
	t.Helper()
	left := func() []string {
		return strings.Fields(string(e.Exec(ctx, t, berth.Shell(findNamed), berth.ExecOptions{Env: map[string]string{"n": name}}).Stdout))
	}
	for _, text := range left() {
		pid, err := strconv.Atoi(text)
		named := slices.ContainsFunc(exit.Survivors, func(s spec.Survivor) bool { return s.PID == pid })
		if err != nil || exit.Kill == spec.KillTerminated || !named {
			t.Errorf("process %s is left after a kill that says %q and names %v", text, exit.Kill, exit.Survivors)
		}
		e.Sh(ctx, t, "kill -9 "+text)
	}
}
