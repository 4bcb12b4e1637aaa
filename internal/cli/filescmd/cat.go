package filescmd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// catFlags are the flags of cat.
type catFlags struct {
	from, bytes int64
	lines       string
	head        int64
}

// NewCat returns the verb cat.
func NewCat(env *verb.Env) *cobra.Command {
	var flags catFlags
	cmd := &cobra.Command{
		Use:   "cat [FLAG]... KEY:PATH...",
		Short: "Print files of a sandbox",
		Long: `Cat prints regular files, byte for byte, or a part of each. It goes on after one that
cannot be read; the last one decides the exit status.

` + pathsHelp + ` With --json each file is an object, with its text or, if it is not UTF-8, its
bytes in base64; more than 4 MiB of one are refused then.`,
		Example: `  berth cat session-1:src/main.go
  berth cat --lines 100:120 session-1:log.txt
  berth cat --head 5 session-1:a.txt session-1:b.txt
  berth cat --from 4096 --bytes 512 session-1:/var/lib/data | xxd`,
		Args: needPaths(1, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			window, err := flags.window()
			if err != nil {
				return err
			}
			p := newPlaces(env, cmd)
			defer p.close()
			return verb.Each(cmd.Context(), args, func(arg string) error { return cat(cmd.Context(), env, p, arg, window) })
		},
	}
	cmd.Flags().Int64Var(&flags.from, "from", 0, "begin at `BYTE`, counted from 0")
	cmd.Flags().Int64Var(&flags.bytes, "bytes", 0, "at most `N` bytes; 0: to the end")
	cmd.Flags().StringVar(&flags.lines, "lines", "", "lines `A:B`, counted from 1, both included; A: and :B are open")
	cmd.Flags().Int64Var(&flags.head, "head", 0, "the first `N` lines")
	return common(env, cmd)
}

// window is what is wanted of each file: bytes, or lines if last is not 0.
type window struct {
	o           files.OpenOptions
	first, last int64
}

const allLines = int64(^uint64(0) >> 1)

func (f *catFlags) window() (window, error) {
	w := window{o: files.OpenOptions{Offset: f.from, Length: f.bytes}}
	switch {
	case f.from < 0 || f.bytes < 0 || f.head < 0:
		return w, verb.Usage("--from, --bytes and --head are not negative")
	case f.lines != "" && f.head > 0, (f.lines != "" || f.head > 0) && (f.from > 0 || f.bytes > 0):
		return w, verb.Usage("want one of --lines, --head, and --from with --bytes")
	case f.head > 0:
		w.first, w.last = 1, f.head
	case f.lines != "":
		var err error
		if w.first, w.last, err = parseLines(f.lines); err != nil {
			return w, err
		}
	}
	return w, nil
}

// parseLines reads A:B, A:, :B or A.
func parseLines(text string) (first, last int64, err error) {
	bad := verb.Usage("--lines %q: want A:B with 1 <= A <= B", text)
	from, to, ok := strings.Cut(text, ":")
	if !ok {
		to = from
	}
	first, last = 1, allLines
	if from != "" {
		if first, err = strconv.ParseInt(from, 10, 64); err != nil {
			return 0, 0, bad
		}
	}
	if to != "" {
		if last, err = strconv.ParseInt(to, 10, 64); err != nil {
			return 0, 0, bad
		}
	}
	if first < 1 || last < first {
		return 0, 0, bad
	}
	return first, last, nil
}

// contentLine is a file's content, as JSON has it.
type contentLine struct {
	files.JSONPath
	SizeBytes int64   `json:"size_bytes"` // of the whole file
	Mode      string  `json:"mode"`
	Text      *string `json:"text,omitempty"`
	TextB64   *string `json:"text_b64,omitempty"` // instead of text that is not UTF-8
}

func cat(ctx context.Context, env *verb.Env, p *places, arg string, w window) error {
	l, err := parseRemote(arg, false)
	if err != nil {
		return err
	}
	fsys, err := p.files(l.key)
	if err != nil {
		return err
	}
	f, err := fsys.Open(ctx, l.path, w.o)
	if err != nil {
		return err
	}
	defer f.Close()
	if !env.JSON {
		return w.copy(env.Stdout, f)
	}
	out := &limited{left: files.DefaultReadLimit}
	if err := w.copy(out, f); err != nil {
		return spec.Wrap(err, "read", "", "", l.path)
	}
	line := contentLine{JSONPath: files.ToJSON(l.path), SizeBytes: f.Info().Size, Mode: octal(f.Info().Mode)}
	line.Text, line.TextB64 = console.Text(out.data)
	return env.Print(line)
}

// copy writes what is wanted of r.
func (w window) copy(out io.Writer, r io.Reader) error {
	if w.last == 0 {
		_, err := io.Copy(out, r)
		return err
	}
	in := bufio.NewReaderSize(r, 64<<10)
	to := bufio.NewWriterSize(out, 64<<10)
	for line := int64(1); line <= w.last; {
		part, err := in.ReadSlice('\n')
		if line >= w.first {
			if _, err := to.Write(part); err != nil {
				return err
			}
		}
		switch err {
		case nil:
			line++
		case bufio.ErrBufferFull: // of a line that is longer
		case io.EOF:
			return to.Flush()
		default:
			to.Flush()
			return err
		}
	}
	return to.Flush()
}

// limited keeps a bounded number of bytes and refuses more.
type limited struct {
	data []byte
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		return 0, &spec.Error{
			Code: spec.CodeTooLarge, Err: fmt.Errorf("more than %d bytes", files.DefaultReadLimit),
			Hint: "--from and --bytes take a part; without --json there is no limit",
		}
	}
	l.left -= len(p)
	l.data = append(l.data, p...)
	return len(p), nil
}
