package programs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/backend/fake/internal/kernel"
)

// signalNames are those of Linux, from 0, which is a shell's EXIT.
const signalNames = "EXIT HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH POLL PWR SYS"

// ParseSignal reads a signal's number or its name, with SIG or without.
func ParseSignal(s string) (int, bool) {
	if n, err := strconv.Atoi(s); err == nil {
		return n, n >= 0 && n <= kernel.LastSignal
	}
	n := slices.Index(strings.Fields(signalNames), strings.TrimPrefix(strings.ToUpper(s), "SIG"))
	return n, n >= 0
}

// SignalName is the name of a signal without SIG, or its number.
func SignalName(sig int) string {
	if names := strings.Fields(signalNames); sig >= 0 && sig < len(names) {
		return names[sig]
	}
	return strconv.Itoa(sig)
}

// Kill sends signals: kill [-s signal | -signal] pid..., kill -l.
func Kill(p *kernel.Proc, args []string) int {
	sig := 15
	rest := args[1:]
	if len(rest) > 0 && rest[0] == "-l" {
		fmt.Fprintln(p.FD(1), signalNames)
		return 0
	}
	if len(rest) > 0 && strings.HasPrefix(rest[0], "-") && rest[0] != "--" {
		name := rest[0][1:]
		rest = rest[1:]
		if name == "s" && len(rest) > 0 {
			name, rest = rest[0], rest[1:]
		}
		n, ok := ParseSignal(name)
		if !ok {
			fmt.Fprintf(p.FD(2), "kill: invalid signal %s\n", name)
			return 2
		}
		sig = n
	}
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	status := 0
	for _, arg := range rest {
		pid, err := strconv.Atoi(arg)
		if err != nil {
			fmt.Fprintf(p.FD(2), "kill: Illegal number: %s\n", arg)
			return 2
		}
		if err := p.Kill(pid, sig); err != nil {
			fmt.Fprintf(p.FD(2), "kill: %v\n", err)
			status = 1
		}
	}
	return status
}
