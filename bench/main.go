// Command bench measures Berth against the plain alternative, in the same run on
// the same machine, and prints what a ratio of the two medians is. Absolute times
// depend on the machine and its neighbours; ratios much less.
//
//	go run ./bench                         everything that this machine has
//	go run ./bench -backend process,guard  only these
//	go run ./bench -run exec -json         only rows whose name matches, as JSON lines
//	go run ./bench -walls                  what the walls of none, guard, jail and docker stop, as JSON lines
//
// Measurements are interleaved: every round runs each row's own way and all of its
// alternatives once, in turn, so that a busy moment hits both.
//
// It starts what it needs (a private dockerd, a private sshd on loopback) and ends
// it. A backend whose engine cannot be started is left out with a line on stderr,
// and is an error if -backend names it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/guest/selfexec"
)

func main() {
	selfexec.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	pattern := flags.String("run", "", "only rows whose name matches this regular expression")
	backends := flags.String("backend", "", "only these, comma separated: "+strings.Join(backendNames(), ", "))
	asJSON := flags.Bool("json", false, "one JSON object a line: name, backend, against, ours_p50_us, against_p50_us, ratio")
	caps := flags.Bool("caps", false, "print what each place enforces instead of measuring, one JSON object a line")
	walls := flags.Bool("walls", false, "print what the wall of each place stops instead of measuring, one JSON object a line; -backend takes none, guard, jail, docker")
	rounds := flags.Int("rounds", 200, "rounds of the fast rows; slow ones run a tenth of it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	match, err := regexp.Compile(*pattern)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	if *rounds < 10 {
		return fmt.Errorf("-rounds %d: at least 10 are needed for a median", *rounds)
	}
	if *walls {
		return printWalls(ctx, *backends, stdout, stderr)
	}
	var results []result
	err = eachBackend(ctx, *backends, stderr, func(sb *berth.Sandbox, rows []row) error {
		if *caps {
			return printCaps(ctx, stdout, rows[0].backend, sb)
		}
		for _, r := range rows {
			if !match.MatchString(r.name) {
				continue
			}
			got, err := r.measure(ctx, *rounds)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", r.name, r.backend, err)
			}
			results = append(results, got...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case *caps:
		return nil
	case *asJSON:
		return printJSON(stdout, results)
	default:
		return printTable(stdout, results)
	}
}

func printJSON(w io.Writer, results []result) error {
	enc := json.NewEncoder(w)
	for _, r := range results {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// printCaps writes one line for internal/docs.
func printCaps(ctx context.Context, w io.Writer, name string, sb *berth.Sandbox) error {
	caps, err := sb.Caps(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(struct {
		Name string     `json:"name"`
		Caps berth.Caps `json:"caps"`
	}{name, caps})
}

func printTable(w io.Writer, results []result) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "NAME\tBACKEND\tAGAINST\tOURS p50\tAGAINST p50\tRATIO")
	for _, r := range results {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%.0f us\t%.0f us\t%.3f\n", r.Name, r.Backend, r.Against, r.Ours, r.Theirs, r.Ratio)
	}
	return tw.Flush()
}
