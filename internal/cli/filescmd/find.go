package filescmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/transfer"
	"github.com/berth-dev/berth/internal/cli/verb"
)

// patternHelp says what a pattern is.
const patternHelp = `A PATTERN is matched against the path below the directory: * is any part of a name, **
as a name any number of directories, ? one character, [a-z] a class, {a,b} either.`

// selection are the flags that say which files are meant.
type selection struct {
	exclude   []string
	gitignore bool
}

func (s *selection) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&s.exclude, "exclude", nil, "leave out what matches `PATTERN`, and what is below it; repeatable")
	flags.BoolVar(&s.gitignore, "gitignore", false, "leave out what git would ignore, and .git")
}

func newFind(env *verb.Env) *cobra.Command {
	var s selection
	var types []string
	var limit int
	var long, null bool
	cmd := &cobra.Command{
		Use:   "find [FLAG]... KEY[:DIR] [PATTERN]",
		Short: "Find files by name",
		Long: `Find prints the paths of what is below a directory, or of what matches a pattern there.
Directories that cannot be read are passed over.

` + patternHelp + ` Quote it, so
that the shell leaves it alone.`,
		Example: `  berth files find session-1:
  berth files find session-1:src '**/*_test.go' --type f
  berth files find session-1 '**/{Makefile,*.mk}' --gitignore --long
  berth files find session-1: --null | xargs -0 -n1 echo`,
		Args: needPaths(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := parseRemote(args[0], true)
			if err != nil {
				return err
			}
			o := files.GlobOptions{Dir: l.path, Exclude: s.exclude, Gitignore: s.gitignore, Limit: limit, Metadata: long}
			if len(args) > 1 {
				o.Pattern = args[1]
			}
			if o.Types, err = parseTypes(types); err != nil {
				return err
			}
			if limit < 0 || long && null {
				return verb.Usage("want a --limit that is not negative, and one of --long and --null")
			}
			p := newPlaces(env, cmd)
			defer p.close()
			return find(cmd, p, l, o, newPrinter(env, null))
		},
	}
	s.add(cmd.Flags())
	cmd.Flags().StringSliceVar(&types, "type", nil, "only files (f), directories (d), links (l) or others (o): `TYPE`; repeatable")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most `N` of them; 0: all")
	cmd.Flags().BoolVarP(&long, "long", "l", false, "mode, links, owner, size and time too")
	cmd.Flags().BoolVarP(&null, "null", "0", false, "paths byte for byte, each ended by a NUL byte")
	return common(env, cmd)
}

func parseTypes(texts []string) (files.GlobTypes, error) {
	var types files.GlobTypes
	for _, text := range texts {
		t, ok := map[string]files.GlobTypes{"f": files.GlobFiles, "d": files.GlobDirs, "l": files.GlobLinks, "o": files.GlobOther}[text]
		if !ok {
			return 0, verb.Usage("--type %q: want f, d, l or o", text)
		}
		types |= t
	}
	return types, nil
}

func find(cmd *cobra.Command, p *places, l location, o files.GlobOptions, out *printer) error {
	fsys, err := p.files(l.key)
	if err != nil {
		return err
	}
	for m, err := range files.Glob(cmd.Context(), fsys, o) {
		if err != nil {
			return out.flush(err)
		}
		path := transfer.Join(l.path, m.Path)
		switch {
		case out.env.JSON && o.Metadata:
			err = out.json(newFileLine(path, m.Info))
		case out.env.JSON:
			err = out.json(nameLine{files.ToJSON(path), typeName(m.Info.Mode)})
		case o.Metadata:
			err = out.long(path, m.Info)
		default:
			err = out.name(path)
		}
		if err != nil {
			return err
		}
	}
	return out.flush(nil)
}

// grepFlags are the flags of grep.
type grepFlags struct {
	selection
	glob                string
	literal, ignoreCase bool
	limit, perFile      int
	context             int
}

func newGrep(env *verb.Env) *cobra.Command {
	var flags grepFlags
	cmd := &cobra.Command{
		Use:   "grep [FLAG]... REGEXP KEY[:DIR]",
		Short: "Find lines in files",
		Long: `Grep prints the lines of the files below a directory that match a regular expression,
as Go has them. Files with NUL bytes near their beginning, and those that cannot be
read, are passed over. The exit status is 1 if there is no such line.

` + patternHelp,
		Example: `  berth files grep 'func \w+Test' session-1:src --glob '**/*.go'
  berth files grep -i -F 'todo:' session-1 --gitignore -C 2
  berth files grep --json error session-1:/var/log | jq -r .path`,
		Args: needPaths(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := parseRemote(args[1], true)
			if err != nil {
				return err
			}
			p := newPlaces(env, cmd)
			defer p.close()
			return grep(cmd, p, l, flags.options(args[0], l.path), newPrinter(env, false))
		},
	}
	flags.add(cmd.Flags())
	cmd.Flags().StringVar(&flags.glob, "glob", "", "only files that match `PATTERN`")
	cmd.Flags().BoolVarP(&flags.literal, "fixed-strings", "F", false, "take REGEXP as plain text")
	cmd.Flags().BoolVarP(&flags.ignoreCase, "ignore-case", "i", false, "ignore case")
	cmd.Flags().IntVar(&flags.limit, "limit", 0, "at most `N` lines; 0: all")
	cmd.Flags().IntVarP(&flags.perFile, "max-count", "m", 0, "at most `N` lines of each file; 0: all")
	cmd.Flags().IntVarP(&flags.context, "context", "C", 0, "`N` lines before and after each too")
	return common(env, cmd)
}

func (f *grepFlags) options(pattern, dir string) files.GrepOptions {
	return files.GrepOptions{
		Files:   files.GlobOptions{Dir: dir, Pattern: f.glob, Exclude: f.exclude, Gitignore: f.gitignore},
		Pattern: pattern, Literal: f.literal, IgnoreCase: f.ignoreCase,
		Limit: f.limit, LimitPerFile: f.perFile, Context: f.context,
	}
}

// matchLine is a line that grep found, as JSON has it.
type matchLine struct {
	files.JSONPath
	Line    int64   `json:"line"`
	Match   bool    `json:"match"` // false: a line of context
	Text    *string `json:"text,omitempty"`
	TextB64 *string `json:"text_b64,omitempty"`
	Cut     bool    `json:"cut,omitempty"` // the line is longer
}

func grep(cmd *cobra.Command, p *places, l location, o files.GrepOptions, out *printer) error {
	fsys, err := p.files(l.key)
	if err != nil {
		return err
	}
	found := false
	for line, err := range files.Grep(cmd.Context(), fsys, o) {
		if err != nil {
			return out.flush(err)
		}
		found = true
		if err := out.match(transfer.Join(l.path, line.Path), line); err != nil {
			return err
		}
	}
	if err := out.flush(nil); err != nil || found {
		return err
	}
	return verb.Status(verb.StatusNo)
}

// match writes a line as grep -n does: a dash instead of the colons marks context.
func (p *printer) match(path string, line files.Line) error {
	if p.env.JSON {
		l := matchLine{JSONPath: files.ToJSON(path), Line: line.Number, Match: line.Match, Cut: line.Cut}
		l.Text, l.TextB64 = console.Text(line.Text)
		return p.json(l)
	}
	mark := ":"
	if !line.Match {
		mark = "-"
	}
	text := console.Clean(strings.ReplaceAll(string(line.Text), "\t", "    "))
	if line.Cut {
		text += " ..."
	}
	return p.line(fmt.Sprintf("%s%s%d%s%s", console.Clean(path), mark, line.Number, mark, text), "\n")
}
