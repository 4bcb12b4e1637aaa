// Command bench measures Berth against the plain alternative, in the same run on
// the same machine, and prints what a ratio of the two medians is. Absolute times
// depend on the machine and its neighbours; ratios much less.
//
//	go run ./bench                         everything that this machine has
//	go run ./bench -backend process,guard  only these
//	go run ./bench -run exec -json         only rows whose name matches, as JSON lines
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
	"text/tabwriter"

	"github.com/berth-dev/berth/guest/selfexec"
)

func main() {
	selfexec.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
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
	markdown := flags.Bool("markdown", false, "print the table as README shows it")
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
	var results []result
	err = eachBackend(ctx, *backends, stderr, func(rows []row) error {
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
	case *asJSON:
		return printJSON(stdout, results)
	case *markdown:
		return printMarkdown(stdout, results)
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

func printTable(w io.Writer, results []result) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "NAME\tBACKEND\tAGAINST\tOURS p50\tAGAINST p50\tRATIO")
	for _, r := range results {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%.0f us\t%.0f us\t%.3f\n", r.Name, r.Backend, r.Against, r.Ours, r.Theirs, r.Ratio)
	}
	return tw.Flush()
}

func printMarkdown(w io.Writer, results []result) error {
	fmt.Fprintln(w, "| what | where | against | ratio of medians |")
	fmt.Fprintln(w, "|---|---|---|---|")
	for _, r := range results {
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", r.Name, r.Backend, r.Against, r.phrase())
	}
	return nil
}

// phrase says a ratio as a person would.
func (r result) phrase() string {
	if r.Ratio < 0.5 {
		return fmt.Sprintf("%.2f (%.0f x faster)", r.Ratio, 1/r.Ratio)
	}
	return fmt.Sprintf("%.2f", r.Ratio)
}
