package filescmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/transfer"
	"github.com/berth-dev/berth/internal/cli/verb"
)

// changeLine is one change as JSON has it.
type changeLine struct {
	Kind string `json:"kind"`
	files.JSONPath
	OldPath    string `json:"old_path,omitempty"`
	OldPathB64 string `json:"old_path_b64,omitempty"`
	Dir        bool   `json:"dir,omitempty"`
}

// errCounted ends a watch that has told as much as it was to tell.
var errCounted = errors.New("enough changes")

func newWatch(env *verb.Env) *cobra.Command {
	var s selection
	var recursive bool
	var count int
	cmd := &cobra.Command{
		Use:   "watch [FLAG]... KEY[:PATH]",
		Short: "Tell what changes in a directory, or to a file",
		Long: `Watch prints a line for each change until it is interrupted or what is watched is gone:
what happened - created, written, mode, removed, renamed, overflow - and the path, of
a directory with a slash behind it. After an overflow changes are missing, and what is
watched is to be read again. That it has begun is said on standard error, and with
--json by a first object of the kind "watching".`,
		Example: `  berth files watch session-1:src --recursive
  berth files watch session-1 --recursive --gitignore --json
  berth files watch session-1:out/report.html --count 1`,
		Args: needPaths(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := parseRemote(args[0], true)
			if err != nil {
				return err
			}
			if count < 0 {
				return verb.Usage("want a --count that is not negative")
			}
			p := newPlaces(env, cmd)
			defer p.close()
			fsys, err := p.files(l.key)
			if err != nil {
				return err
			}
			o := files.WatchOptions{Recursive: recursive, Exclude: s.exclude, Gitignore: s.gitignore}
			w := &watching{out: newPrinter(env, false), top: l.path, left: count}
			err = files.Watch(cmd.Context(), fsys, l.path, o, func() { w.begin(l) }, w.tell)
			if errors.Is(err, errCounted) || errors.Is(err, context.Canceled) {
				err = nil // there is no other end that anybody waits for
			}
			return w.out.flush(err)
		},
	}
	s.add(cmd.Flags())
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "what is below in directories too, also in those that are made meanwhile")
	cmd.Flags().IntVar(&count, "count", 0, "end after `N` changes; 0: never")
	return common(env, cmd)
}

// watching prints changes.
type watching struct {
	out  *printer
	top  string
	left int // changes; 0: any number
	err  error
}

// begin says that the watch has begun.
func (w *watching) begin(l location) {
	w.out.env.Note("watching %s", l)
	if w.out.env.JSON {
		w.err = w.print(changeLine{Kind: "watching", JSONPath: files.ToJSON(l.path)})
	}
}

// print prints at once: the next change may be long in coming.
func (w *watching) print(line changeLine) error { return w.out.flush(w.out.json(line)) }

// tell prints a change.
func (w *watching) tell(e files.WatchEvent) error {
	if w.err != nil {
		return w.err
	}
	path, oldPath := w.top, ""
	if e.Path != "." {
		path = transfer.Join(w.top, e.Path)
	}
	if e.OldPath != "" {
		oldPath = transfer.Join(w.top, e.OldPath)
	}
	var err error
	if w.out.env.JSON {
		old := files.ToJSON(oldPath)
		err = w.print(changeLine{Kind: string(e.Kind), JSONPath: files.ToJSON(path), OldPath: old.Path, OldPathB64: old.PathB64, Dir: e.Dir})
	} else {
		err = w.out.flush(w.out.line(changeText(e, path, oldPath), "\n"))
	}
	if w.left == 1 && err == nil {
		return errCounted
	}
	w.left = max(w.left-1, 0)
	return err
}

// changeText is a change for a person.
func changeText(e files.WatchEvent, path, oldPath string) string {
	slash := ""
	if e.Dir && path != "/" {
		slash = "/"
	}
	text := string(e.Kind) + " "
	if oldPath != "" {
		text += console.Clean(oldPath) + slash + " -> "
	}
	return text + console.Clean(path) + slash
}
