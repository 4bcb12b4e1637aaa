package filescmd

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// writeFlags are the flags of write.
type writeFlags struct {
	text, fromFile, mode, ifSHA256 string
	exclusive, sync                bool
}

// NewWrite returns the verb write.
func NewWrite(env *verb.Env) *cobra.Command {
	var flags writeFlags
	cmd := &cobra.Command{
		Use:   "write [FLAG]... KEY:PATH",
		Short: "Write one file of a sandbox",
		Long: `Write makes a file with what it reads from our input, or with --text or --from-file. The
file is replaced as a whole, so that nobody sees half of it; missing directories are
made. A new one gets the mode 0644 and an existing one keeps its own, unless --mode is
given.

` + pathsHelp + ` With --if-sha256 a file that others have changed is left alone.`,
		Example: `  echo hello | berth write session-1:notes/a.txt
  berth write session-1:run.sh --from-file run.sh --mode 0755
  berth write session-1:lock --text "$$" --exclusive
  berth write session-1:a.txt --if-sha256 "$sum" --json <a.txt | jq -r .sha256`,
		Args: needPaths(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := newPlaces(env, cmd)
			defer p.close()
			return write(cmd, env, p, &flags, args[0])
		},
	}
	cmd.Flags().StringVar(&flags.text, "text", "", "write `TEXT`, without a newline after it, instead of our input")
	cmd.Flags().StringVar(&flags.fromFile, "from-file", "", "write what is in `FILE` of this machine instead of our input")
	cmd.Flags().StringVar(&flags.mode, "mode", "", "set the `MODE` of the file, in octal")
	cmd.Flags().BoolVar(&flags.exclusive, "exclusive", false, "refuse a name that exists")
	cmd.Flags().StringVar(&flags.ifSHA256, "if-sha256", "", "write only if the file has the SHA-256 `SUM` now")
	cmd.Flags().BoolVar(&flags.sync, "sync", false, "return when the file would survive a power failure")
	return common(env, cmd)
}

// options builds what the flags ask for.
func (f *writeFlags) options() (files.WriteOptions, error) {
	o := files.WriteOptions{Exclusive: f.exclusive, IfSHA256: strings.ToLower(f.ifSHA256), Sync: f.sync, AnySize: true}
	if f.mode == "" {
		return o, nil
	}
	mode, err := parseMode(f.mode)
	o.Mode, o.SetMode = mode, true
	if err == nil && mode == 0 {
		err = verb.Usage("--mode 0: nobody could read the file; berth files chmod does it")
	}
	return o, err
}

// parseMode reads permission bits in octal.
func parseMode(text string) (fs.FileMode, error) {
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, verb.Usage("%q is no mode: want octal digits up to 777, 0644 say", text)
	}
	return fs.FileMode(mode), nil
}

// source returns what is to be written.
func (f *writeFlags) source(cmd *cobra.Command, env *verb.Env) (io.Reader, func() error, error) {
	none := func() error { return nil }
	text, file := cmd.Flags().Changed("text"), cmd.Flags().Changed("from-file")
	switch {
	case text && file:
		return nil, nil, verb.Usage("want one of --text and --from-file")
	case text:
		return strings.NewReader(f.text), none, nil
	case file:
		in, err := os.Open(f.fromFile)
		if err != nil {
			return nil, nil, localError(err, f.fromFile)
		}
		return in, in.Close, nil
	}
	return &input{ctx: cmd.Context(), r: env.Stdin}, none, nil
}

// localError gives an error of a file of this machine its code.
func localError(err error, name string) error {
	code := spec.CodeInvalid
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = spec.CodeFileNotFound
	case errors.Is(err, fs.ErrPermission):
		code = spec.CodePermission
	}
	return &spec.Error{Op: "read", Path: name, Code: code, Hint: "it is a file of this machine"}
}

// writtenLine is what was written, as JSON has it.
type writtenLine struct {
	files.JSONPath
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func write(cmd *cobra.Command, env *verb.Env, p *places, flags *writeFlags, arg string) error {
	l, err := parseRemote(arg, false)
	if err != nil {
		return err
	}
	o, err := flags.options()
	if err != nil {
		return err
	}
	src, closer, err := flags.source(cmd, env)
	if err != nil {
		return err
	}
	defer closer()
	fsys, err := p.files(l.key)
	if err != nil {
		return err
	}
	var n atomic.Int64
	progress := env.Poll(func() spec.Progress { return spec.Progress{Step: "write", Message: console.Bytes(n.Load())} })
	defer progress.Stop()
	in := &counted{r: src, n: &n, hash: newHash()}
	if err := writeTo(cmd.Context(), fsys, l.path, in, o); err != nil {
		return err
	}
	progress.Stop()
	if env.JSON {
		return env.Print(writtenLine{JSONPath: files.ToJSON(l.path), Bytes: n.Load(), SHA256: in.sum()})
	}
	return nil
}

func writeTo(ctx context.Context, fsys files.FS, name string, in io.Reader, o files.WriteOptions) error {
	err := fsys.Write(ctx, name, in, 0, o)
	if spec.CodeOf(err) != spec.CodeExists || spec.HintOf(err) != "" {
		return err
	}
	e := spec.Wrap(err, "", "", "", "").(*spec.Error)
	e.Hint = "without --exclusive the file is replaced"
	if o.IfSHA256 != "" {
		e.Hint = "somebody else has written the file: read it again, or leave out --if-sha256"
	}
	return e
}
