// Package fake is a backend in memory: what you test an agent with. Its places have
// files, a POSIX shell, the usual small programs, processes with signals, jobs with
// logs, and no process, network or file of the machine behind them.
//
// It keeps the same contract as every other backend and passes the same suite
// (drivertest), so what an agent does to it means what it means elsewhere. Beyond the
// contract it can be told what to do:
//
//   - Options.Programs are commands written in Go;
//   - World.On answers commands with a Reply, also those that a script runs: a test
//     says On(Args("git", "push", "..."), Reply{Exit: 1}) and leaves the rest as it is;
//   - World.Inject makes an operation slow, fail, lose its answer or take the place
//     down with it;
//   - World.Calls and World.Count say what was asked for.
//
// # Time
//
// The fake takes the time from package time and waits on channels and timers only. In
// a bubble of testing/synctest the bubble's clock is its clock: a timeout of an hour
// passes at once, and no test sleeps. A World belongs to the bubble that made it. Close
// what was opened before the bubble ends; a Program is to return when its context ends.
// A command that never waits (a shell loop of builtins, yes >/dev/null) keeps a
// bubble's clock from moving on.
//
// # What is not there
//
// A place has one user, root, and nothing is refused for lack of permission. There is
// no network, no image, no limit and no isolation: the programs are functions in the
// test's own process. A Spec that asks for one of these is refused unless
// Options.Claim says that it is to be taken. The shell is that of package
// backend/fake/internal/shell: dash without job control, so that on a terminal ^Z stops
// nothing. Another user for a command is unsupported; of its resource limits cpu, fsize,
// nofile and nproc are enforced, and the CPU time and memory in its Exit are estimates.
package fake
