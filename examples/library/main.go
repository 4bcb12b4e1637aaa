// Command library uses a sandbox on the current directory.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest/selfexec"
)

func main() {
	selfexec.Main() // first of all: this program is also the guest in its sandboxes
	if err := work(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err) // such as: provision process: unsupported: bubblewrap (bwrap) is not installed
		if e, ok := errors.AsType[*berth.Error](err); ok {
			fmt.Fprintf(os.Stderr, "code: %s\nhint: %s\n", e.Code, e.Hint)
		}
		os.Exit(1)
	}
}

func work(ctx context.Context) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	d, err := process.New(process.Options{})
	if err != nil {
		return err
	}
	sb, err := berth.Provision(ctx, d, berth.Spec{Key: "session-1", Workdir: dir})
	if err != nil {
		return err
	}
	defer sb.Close(ctx) // removes it; Detach leaves it for a later Attach

	out, err := sb.CommandContext(ctx, "echo", "hello").Output() // like os/exec: Stdin, Dir, Env, Start, Wait, ...
	if err != nil {
		return err
	}
	res, err := sb.Exec(ctx, berth.Shell("cat; exit 3"), berth.ExecOptions{Timeout: 2 * time.Minute})
	if err != nil {
		return err // the place failed; what the command did is in res
	}
	fmt.Println(res.ExitCode, res.TimedOut)
	if err := sb.Files().WriteFile(ctx, "report.txt", out, files.WriteOptions{}); err != nil {
		return err
	}
	again, err := berth.Attach(ctx, d, "session-1") // another process would find it the same way
	if err != nil {
		return err
	}
	return again.Detach(ctx)
}
