package jobscmd

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
)

func newLogs(env *verb.Env) *cobra.Command {
	p := &place{env: env}
	var w berth.LogWindow
	cmd := &cobra.Command{
		Use:   "logs --key KEY [FLAG]... ID",
		Short: "Print what a job has written",
		Long: `Logs prints a job's log, byte for byte, or a part of it, which takes as long as the part
and not as the log. With --follow it goes on with what is written, until the job has
ended; an interrupt ends the following and not the job.

Lines are counted from 1; a negative --from counts from the end. With --json each line
is an object, with its text or, if that is not UTF-8, its bytes in base64; of a line
longer than 64 KiB there are several.`,
		Example: `  berth jobs logs --key session-1 job-1
  berth jobs logs --key session-1 -f --from -10 job-1
  berth jobs logs --key session-1 --from 1000 --lines 20 job-1
  berth jobs logs --key session-1 --offset 1048576 --bytes 4096 job-1`,
		Args: needIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if w.Offset > 0 && cmd.Flags().Changed("from") {
				return verb.Usage("want one of --from and --offset")
			}
			return logs(cmd, p, args[0], w)
		},
	}
	cmd.Flags().BoolVarP(&w.Follow, "follow", "f", false, "go on with what is written, until the job has ended")
	cmd.Flags().Int64Var(&w.From, "from", 0, "begin with `LINE`; -10: with the tenth from the end")
	cmd.Flags().Int64Var(&w.Lines, "lines", 0, "at most `N` lines; 0: to the end")
	cmd.Flags().Int64Var(&w.Offset, "offset", 0, "begin with `BYTE`, counted from 0")
	cmd.Flags().Int64Var(&w.MaxBytes, "bytes", 0, "at most `N` bytes; 0: to the end")
	return p.add(cmd, true)
}

func logs(cmd *cobra.Command, p *place, id string, w berth.LogWindow) error {
	ctx := cmd.Context()
	job, closer, err := p.get(ctx, id)
	if err != nil {
		return err
	}
	defer closer()
	log, err := job.OpenLog(ctx, w)
	if err != nil {
		return explain(err)
	}
	defer log.Close()
	if p.env.JSON {
		return printLines(&p.env.Console, log)
	}
	_, err = io.Copy(p.env.Stdout, log)
	return err
}

// logLine is one line of a log as JSON has it.
type logLine struct {
	Line    int64   `json:"line"`
	Text    *string `json:"text,omitempty"` // without the newline
	TextB64 *string `json:"text_b64,omitempty"`
	Cut     bool    `json:"cut,omitempty"` // the line goes on in the next object
}

// printLines prints each line as it comes.
func printLines(c *console.Console, log berth.Log) error {
	r := bufio.NewReaderSize(log, 64<<10)
	for n := log.Info().FirstLine; ; {
		part, err := r.ReadSlice('\n')
		cut := errors.Is(err, bufio.ErrBufferFull)
		if len(part) > 0 {
			l := logLine{Line: n, Cut: cut}
			l.Text, l.TextB64 = console.Text(bytes.TrimSuffix(part, []byte("\n")))
			if err := c.Print(l); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
			n++
		case err == io.EOF:
			return nil
		case !cut:
			return err
		}
	}
}
