package shell

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/backend/fake/internal/kernel"
	"github.com/berth-dev/berth/backend/fake/internal/programs"
	"github.com/berth-dev/berth/spec"
)

// runTraps runs the actions of the signals that have come.
func (sh *shell) runTraps() {
	for _, sig := range sh.p.Caught() {
		action, ok := sh.traps[sig]
		if !ok && sh.interactive && sig == int(spec.SIGINT) && sh.flow != exiting {
			sh.status, sh.flow = 128+sig, interrupted
			fmt.Fprintln(sh.p.FD(2))
		}
		if !ok || action == "" || sh.flow == exiting {
			continue
		}
		status, flow := sh.status, sh.flow
		sh.flow = onward
		sh.run(action)
		if sh.flow == onward {
			sh.status, sh.flow = status, flow
		}
	}
}

func trap(sh *shell, args []string) int {
	args = args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		for _, sig := range slices.Sorted(maps.Keys(sh.traps)) {
			fmt.Fprintf(sh.p.FD(1), "trap -- %s %s\n", quote(sh.traps[sig]), programs.SignalName(sig))
		}
		return 0
	}
	action, names := args[0], args[1:]
	if _, err := strconv.Atoi(action); err == nil || len(names) == 0 {
		action, names = "-", args
	}
	status := 0
	for _, name := range names {
		sig, ok := programs.ParseSignal(name)
		if !ok {
			sh.complain("trap: %s: bad trap", name)
			status = 1
			continue
		}
		sh.trap(sig, action)
	}
	return status
}

func (sh *shell) trap(sig int, action string) {
	disposition := kernel.Catch
	switch action {
	case "-":
		delete(sh.traps, sig)
		disposition = kernel.Default
	case "":
		sh.traps[sig] = ""
		disposition = kernel.Ignore
	default:
		sh.traps[sig] = action
	}
	if sig != 0 {
		sh.p.Handle(sig, disposition)
	}
}

// quote makes s one word of a script.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// wait is the builtin. A trapped signal ends it.
func wait(sh *shell, args []string) int {
	pids := slices.Clone(sh.jobs)
	if len(args) > 1 {
		pids = nil
		for _, arg := range args[1:] {
			pid, ok := sh.job(arg)
			if !ok {
				sh.complain("wait: Illegal number: %s", arg)
				return 2
			}
			pids = append(pids, pid)
		}
	}
	status := 0
	for _, pid := range pids {
		got, ok := sh.await(pid)
		if !ok {
			caught := sh.p.Pending()
			if sh.runTraps(); sh.flow != onward {
				return sh.status
			}
			return 128 + caught
		}
		status = got
	}
	if len(args) == 1 {
		return 0
	}
	return status
}

// job is the pid that %1, %% or a number means.
func (sh *shell) job(arg string) (int, bool) {
	spec, isJob := strings.CutPrefix(arg, "%")
	if isJob && (spec == "" || spec == "%" || spec == "+") {
		return sh.lastPID, sh.lastPID != 0
	}
	n, err := strconv.Atoi(spec)
	if err != nil || !isJob {
		return n, err == nil
	}
	if n < 1 || n > len(sh.jobs) {
		return 0, false
	}
	return sh.jobs[n-1], true
}

func kill(sh *shell, args []string) int {
	args = slices.Clone(args)
	for i, arg := range args {
		if pid, ok := sh.job(arg); ok && strings.HasPrefix(arg, "%") {
			args[i] = strconv.Itoa(pid)
		}
	}
	return programs.Kill(sh.p, args)
}
