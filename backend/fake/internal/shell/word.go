package shell

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// inherit takes the variables of the environment.
func (sh *shell) inherit() {
	for _, entry := range sh.p.Env() {
		name, value, ok := strings.Cut(entry, "=")
		if ok && syntax.ValidName(name) {
			sh.vars[name] = expand.Variable{Set: true, Exported: true, Kind: expand.String, Str: value}
		}
	}
	delete(sh.vars, "IFS")
	sh.vars["PWD"] = expand.Variable{Set: true, Exported: sh.vars["PWD"].Exported, Kind: expand.String, Str: sh.pwd()}
	sh.configure()
}

// pwd is the working directory as PWD spells it, if that is true.
func (sh *shell) pwd() string {
	if dir := sh.vars["PWD"].Str; strings.HasPrefix(dir, "/") {
		if real, err := sh.p.Real(dir); err == nil && real == sh.p.Dir() {
			return dir
		}
	}
	return sh.p.Dir()
}

// configure makes the settings of expansions.
func (sh *shell) configure() {
	sh.cfg = &expand.Config{
		Env: environ{sh},
		CmdSubst: func(w io.Writer, c *syntax.CmdSubst) error {
			sh.substitute(w, c.Stmts)
			return nil
		},
		ReadDir2: sh.readDir,
		NoUnset:  sh.nounset,
	}
	if sh.noglob {
		sh.cfg.ReadDir2 = nil
	}
}

func (sh *shell) readDir(dir string) ([]fs.DirEntry, error) {
	infos, err := sh.p.List(dir)
	if err != nil {
		return nil, err
	}
	out := make([]fs.DirEntry, len(infos))
	for i, info := range infos {
		out[i] = entry{info.Name, info.Mode}
	}
	return out, nil
}

// entry is a name in a directory.
type entry struct {
	name string
	mode fs.FileMode
}

func (e entry) Name() string               { return e.name }
func (e entry) IsDir() bool                { return e.mode.IsDir() }
func (e entry) Type() fs.FileMode          { return e.mode.Type() }
func (e entry) Info() (fs.FileInfo, error) { return nil, fs.ErrNotExist }

// environ shows the variables and the special parameters to expansions.
type environ struct{ sh *shell }

func text(s string) expand.Variable {
	return expand.Variable{Set: true, Kind: expand.String, Str: s}
}

func (e environ) Get(name string) expand.Variable {
	sh := e.sh
	switch name {
	case "@", "*":
		return expand.Variable{Set: len(sh.params) > 0, Kind: expand.Indexed, List: sh.params}
	case "#":
		return text(strconv.Itoa(len(sh.params)))
	case "?":
		return text(strconv.Itoa(sh.status))
	case "$":
		return text(strconv.Itoa(sh.shellPID))
	case "PPID":
		return text(strconv.Itoa(sh.p.Parent()))
	case "-":
		return text(sh.flags())
	case "0":
		return text(sh.name)
	case "!":
		if sh.lastPID == 0 {
			return expand.Variable{}
		}
		return text(strconv.Itoa(sh.lastPID))
	}
	if n, err := strconv.Atoi(name); err == nil {
		if n > len(sh.params) {
			return expand.Variable{}
		}
		return text(sh.params[n-1])
	}
	if user, ok := strings.CutPrefix(name, "HOME "); ok { // there is one user; others stay as they are
		if user == "root" {
			return text("/root")
		}
		return text("~" + user)
	}
	return sh.vars[name]
}

func (e environ) Each(yield func(name string, v expand.Variable) bool) {
	for _, name := range slices.Sorted(maps.Keys(e.sh.vars)) {
		if v := e.sh.vars[name]; v.Set && !yield(name, v) {
			return
		}
	}
}

var errReadOnly = errors.New("is read only")

func (e environ) Set(name string, v expand.Variable) error {
	old := e.sh.vars[name]
	if old.ReadOnly {
		return errors.Join(errors.New(name+":"), errReadOnly)
	}
	if !v.Set {
		delete(e.sh.vars, name)
		return nil
	}
	v.Exported = v.Exported || old.Exported
	e.sh.vars[name] = v
	return nil
}

// set gives a variable its value, and reports whether that went well.
func (sh *shell) set(name, value string) bool {
	if sh.vars[name].ReadOnly {
		sh.complain("%s: is read only", name)
		sh.exit(2)
		return false
	}
	if err := sh.p.Hold(int64(len(value) - len(sh.vars[name].Str))); err != nil {
		sh.complain("%v", err)
		sh.exit(2)
		return false
	}
	v := text(value)
	v.Exported = sh.vars[name].Exported
	sh.vars[name] = v
	return true
}

// exported is the environment of a program, with more variables on top.
func (sh *shell) exported(more map[string]string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(sh.vars)) {
		if v := sh.vars[name]; v.Exported && v.Set {
			if _, hidden := more[name]; !hidden {
				out = append(out, name+"="+v.Str)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		out = append(out, name+"="+more[name])
	}
	return out
}

// The expansions. Each returns false after it has said what is wrong: a word that
// cannot be expanded ends the shell.

func (sh *shell) fields(words []*syntax.Word) ([]string, bool) {
	out, err := expand.Fields(sh.cfg, words...)
	return out, sh.expanded(err)
}

func (sh *shell) literal(word *syntax.Word) (string, bool) {
	out, err := expand.Literal(sh.cfg, word)
	return out, sh.expanded(err)
}

func (sh *shell) document(word *syntax.Word) (string, bool) {
	out, err := expand.Document(sh.cfg, word)
	return out, sh.expanded(err)
}

func (sh *shell) pattern(word *syntax.Word) (string, bool) {
	out, err := expand.Pattern(sh.cfg, word)
	return out, sh.expanded(err)
}

func (sh *shell) expanded(err error) bool {
	if err == nil {
		return !sh.stop()
	}
	sh.complain("%v", err)
	sh.exit(2)
	return false
}

// matches reports whether all of s matches a pattern.
func matches(pat, s string) bool {
	expr, err := pattern.Regexp(pat, pattern.EntireString)
	if err != nil {
		return pat == s
	}
	rx, err := regexp.Compile(expr)
	return err == nil && rx.MatchString(s)
}
