// Package berth gives a program a place to work: somewhere its commands run and
// its files live. One type, Sandbox, covers every such place - this machine, bare
// or inside a kernel sandbox, a container, another machine over SSH - and a command
// or a file behaves the same in all of them.
//
// A backend (backend/process, backend/docker, ...) makes a driver; Provision, or
// Attach, or New makes a Sandbox of it:
//
//	sb, err := berth.Provision(ctx, d, berth.Spec{Key: "session-1"})
//	out, err := sb.CommandContext(ctx, "python", "-V").Output()
//	res, err := sb.Exec(ctx, berth.Shell("pytest -q"), berth.ExecOptions{Timeout: 2 * time.Minute})
//	data, err := sb.Files().ReadFile(ctx, "report.txt")
//
// On this machine (backend/process) the program is its own guest if main begins with
// selfexec.Main() of package guest/selfexec; the guest of other places is built with
// the local Go toolchain when it is first needed. examples/library is a whole program.
//
// Cmd mirrors os/exec.Cmd, for streams and pipes. Exec gives a whole result with
// capped output, for tools. Files is the byte-exact file API.
//
// # Answers
//
// What a command did is a result: its exit status, its death by a signal, its
// timeout. Exec returns it as such; Cmd returns it as *ExitError, as os/exec does.
// Any other error says that the place failed its caller or that the request was
// wrong: it is a *Error with one of the codes of package spec, or io.EOF, or the
// error of the caller's context. A result, a timeout, a lost place and a cancelled
// caller are never taken for each other.
//
// A *Error has a Code, the sentinel of which errors.Is finds, and often a Hint, which is
// advice for a person and not part of the message:
//
//	if errors.Is(err, berth.ErrNotFound) { ... }
//	if e, ok := errors.AsType[*berth.Error](err); ok {
//		log.Printf("%v (%s); %s", e, e.Code, e.Hint)
//	}
//
// # Life of a sandbox
//
// Close ends what Provision made: it removes the place, or stops it if Spec.Persist
// is set. It lets go of what Attach found. Detach lets go of either; Destroy removes
// either. All of them are idempotent, and afterwards every call on the Sandbox is
// ErrNotFound.
//
// # Concurrency
//
// A Sandbox and its Files are safe for concurrent use. A Cmd is not, but for its
// Signal and Kill methods.
package berth
