//go:build linux

package berth_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
)

// thisMachine returns the driver that the examples use, and what cleans up after
// it. A program of your own calls process.New, docker.New or another backend's New
// with its options.
func thisMachine() (driver.Driver, func()) {
	dir, err := os.MkdirTemp("", "berth-example-")
	if err != nil {
		log.Fatal(err)
	}
	d, err := process.New(process.Options{StateDir: dir})
	if err != nil {
		log.Fatal(err)
	}
	return d, func() { os.RemoveAll(dir) }
}

// A place is made, used like os/exec, and removed.
func Example() {
	ctx := context.Background()
	d, cleanUp := thisMachine()
	defer cleanUp()
	sb, err := berth.Provision(ctx, d, berth.Spec{Isolation: berth.IsolationNone})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Close(ctx)
	out, err := sb.CommandContext(ctx, "echo", "hello", "from", "inside").Output()
	fmt.Printf("%s%v\n", out, err)
	// Output:
	// hello from inside
	// <nil>
}

// What a command did is a result, whatever it did.
func ExampleSandbox_Exec() {
	ctx := context.Background()
	d, cleanUp := thisMachine()
	defer cleanUp()
	sb := berth.New(d, berth.Spec{Isolation: berth.IsolationNone}, berth.ProvisionOptions{})
	defer sb.Close(ctx)

	res, err := sb.Exec(ctx, berth.Shell("echo some; echo trouble >&2; exit 3"), berth.ExecOptions{})
	if err != nil {
		log.Fatal(err) // the place failed, not the command
	}
	fmt.Printf("%q %q %d\n", res.Stdout, res.Stderr, res.ExitCode)

	res, err = sb.Exec(ctx, berth.Shell("echo started; sleep 300"), berth.ExecOptions{Timeout: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q %v\n", res.Stdout, res.TimedOut)
	// Output:
	// "some\n" "trouble\n" 3
	// "started\n" true
}

// Streams are live in both directions.
func ExampleCmd_StdoutPipe() {
	ctx := context.Background()
	d, cleanUp := thisMachine()
	defer cleanUp()
	sb := berth.New(d, berth.Spec{Isolation: berth.IsolationNone}, berth.ProvisionOptions{})
	defer sb.Close(ctx)

	cmd := sb.CommandContext(ctx, "cat")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		log.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for _, word := range []string{"ping", "pong"} {
		fmt.Fprintln(in, word)
		line, err := lines.ReadString('\n')
		fmt.Print(line)
		if err != nil {
			log.Fatal(err)
		}
	}
	in.Close()
	rest, err := io.ReadAll(lines)
	fmt.Println(len(rest), err, cmd.Wait())
	// Output:
	// ping
	// pong
	// 0 <nil> <nil>
}

// An *ExitError says how a command ended that did not succeed.
func ExampleExitError() {
	ctx := context.Background()
	d, cleanUp := thisMachine()
	defer cleanUp()
	sb := berth.New(d, berth.Spec{Isolation: berth.IsolationNone}, berth.ProvisionOptions{})
	defer sb.Close(ctx)

	_, err := sb.CommandContext(ctx, "/bin/sh", "-c", "echo no such thing >&2; kill -TERM $$").Output()
	var exit *berth.ExitError
	if errors.As(err, &exit) {
		fmt.Printf("%v: code %d, stderr %q\n", err, exit.Code, exit.Stderr)
	}
	// Output:
	// signal 15: code 143, stderr "no such thing\n"
}

// Files are written atomically and read byte for byte.
func ExampleSandbox_Files() {
	ctx := context.Background()
	d, cleanUp := thisMachine()
	defer cleanUp()
	sb := berth.New(d, berth.Spec{Isolation: berth.IsolationNone}, berth.ProvisionOptions{})
	defer sb.Close(ctx)

	f := sb.Files()
	if err := f.WriteFile(ctx, "src/hello.txt", []byte("hello\n"), files.WriteOptions{}); err != nil {
		log.Fatal(err)
	}
	data, err := f.ReadFile(ctx, "src/hello.txt")
	fmt.Printf("%q %v\n", data, err)
	_, err = f.ReadFile(ctx, "src/missing.txt")
	fmt.Println(errors.Is(err, berth.ErrFileNotFound))
	// Output:
	// "hello\n" <nil>
	// true
}

// The files of a place are an io/fs file system too, for whatever takes one.
func ExampleSandbox_FS() {
	ctx := context.Background()
	d, cleanUp := thisMachine()
	defer cleanUp()
	sb := berth.New(d, berth.Spec{Isolation: berth.IsolationNone}, berth.ProvisionOptions{})
	defer sb.Close(ctx)

	for _, name := range []string{"src/a.txt", "src/b/c.txt"} {
		if err := sb.Files().WriteFile(ctx, name, []byte(name), files.WriteOptions{}); err != nil {
			log.Fatal(err)
		}
	}
	err := fs.WalkDir(sb.FS(ctx, "src"), ".", func(path string, _ fs.DirEntry, err error) error {
		fmt.Println(path)
		return err
	})
	fmt.Println(err)
	// Output:
	// .
	// a.txt
	// b
	// b/c.txt
	// <nil>
}

// A place with a key is found again, by other processes too.
func ExampleAttach() {
	ctx := context.Background()
	d, cleanUp := thisMachine()
	defer cleanUp()
	sb, err := berth.Provision(ctx, d, berth.Spec{Key: "session-1", Isolation: berth.IsolationNone})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Close(ctx)

	again, err := berth.Attach(ctx, d, "session-1")
	if err != nil {
		log.Fatal(err)
	}
	defer again.Close(ctx) // lets go of it, since it was only attached
	fmt.Println(again.ID() == sb.ID())
	_, err = berth.Attach(ctx, d, "session-2")
	fmt.Println(errors.Is(err, berth.ErrNotFound))
	// Output:
	// true
	// true
}
