package fake_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/fake"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// repair is the agent under test: it runs the tests of a project, and when they fail
// writes a patch and runs them again. A place that cannot be reached is tried once more.
func repair(ctx context.Context, d driver.Driver) error {
	sb, err := berth.Provision(ctx, d, berth.Spec{Key: "session-1"})
	if errors.Is(err, spec.ErrUnavailable) {
		sb, err = berth.Provision(ctx, d, berth.Spec{Key: "session-1"})
	}
	if err != nil {
		return err
	}
	defer sb.Close(ctx)
	for range 3 {
		r, err := sb.Exec(ctx, berth.Shell("cd src && pytest -q | tail -n 1"), berth.ExecOptions{Timeout: time.Hour})
		if err != nil {
			return err
		}
		if string(r.Stdout) == "1 passed\n" {
			return nil
		}
		if err := sb.Files().WriteFile(ctx, "src/app.py", []byte("fixed\n"), files.WriteOptions{}); err != nil {
			return err
		}
	}
	return errors.New("it cannot be repaired")
}

// An agent is tested against places in memory: programs that are not there are
// scripted, everything else runs.
func Example() {
	ctx := context.Background()
	d := fake.New(fake.Options{Programs: map[string]fake.Program{
		// The tests pass once the file has been fixed.
		"pytest": func(ctx context.Context, c *fake.Invocation) int {
			data, _ := files.ReadFile(ctx, c.Files, c.Dir+"/app.py", 0)
			if string(data) != "fixed\n" {
				fmt.Fprintln(c.Stdout, "assert 1 == 2\n1 failed")
				return 1
			}
			fmt.Fprintln(c.Stdout, "1 passed")
			return 0
		},
	}})
	d.Inject(fake.Fault{Op: fake.OpProvision, Err: spec.New(spec.CodeUnavailable, "the engine restarts")})
	setup, err := berth.Provision(ctx, d, berth.Spec{Key: "session-1"})
	if !errors.Is(err, spec.ErrUnavailable) {
		log.Fatal("the fault did not strike")
	}
	if setup, err = berth.Provision(ctx, d, berth.Spec{Key: "session-1"}); err != nil {
		log.Fatal(err)
	}
	if err := setup.Files().WriteFile(ctx, "src/app.py", []byte("broken\n"), files.WriteOptions{}); err != nil {
		log.Fatal(err)
	}

	fmt.Println("repaired:", repair(ctx, d))
	for _, c := range d.Find(fake.Args("pytest", "...")) {
		fmt.Printf("%v in %s\n", c, c.Dir)
	}
	fmt.Println("writes:", d.Count(fake.OpWrite))
	// Output:
	// repaired: <nil>
	// pytest -q in /workspace/src
	// pytest -q in /workspace/src
	// writes: 2
}

// A scripted reply stands for a program, wherever it is called from.
func ExampleWorld_On() {
	ctx := context.Background()
	d := fake.New(fake.Options{})
	refused := d.On(fake.Args("git", "push", "..."), fake.Reply{Stderr: "rejected: fetch first\n", Exit: 1, Times: 1})
	d.On(fake.Args("git", "fetch"), fake.Reply{Delay: 10 * time.Millisecond})

	sb, err := berth.Provision(ctx, d, berth.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Close(ctx)
	r, err := sb.Exec(ctx, berth.Shell(`git push origin main || { git fetch && echo "fetched"; }`), berth.ExecOptions{})
	fmt.Printf("%s%s%v, refused %d time\n", r.Stdout, r.Stderr, err, refused.Used())
	// Output:
	// fetched
	// rejected: fetch first
	// <nil>, refused 1 time
}
