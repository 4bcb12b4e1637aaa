package shell

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/berth-dev/berth/backend/fake/internal/kernel"
	"github.com/berth-dev/berth/backend/fake/internal/programs"
	"github.com/berth-dev/berth/spec"
)

// special are the builtins whose assignments stay.
var special = map[string]bool{
	":": true, ".": true, "break": true, "continue": true, "eval": true, "exec": true, "exit": true, "export": true,
	"readonly": true, "return": true, "set": true, "shift": true, "times": true, "trap": true, "unset": true,
}

// builtin is a command that the shell runs itself. It gets its name as the first
// argument and returns the status.
type builtin func(sh *shell, args []string) int

// builtins returns all of them; exec is seen to elsewhere.
func builtins() map[string]builtin {
	own := func(f func(p *kernel.Proc, args []string) int) builtin {
		return func(sh *shell, args []string) int { return f(sh.p, args) }
	}
	return map[string]builtin{
		":": yes, "true": yes, "false": func(*shell, []string) int { return 1 },
		".": source, "eval": eval, "exec": yes, "exit": exit, "return": exit, "break": leaveLoop, "continue": leaveLoop,
		"export": export, "readonly": export, "local": local, "unset": unset, "set": set, "shift": shift,
		"cd": cd, "pwd": pwd, "read": read, "umask": umask, "getopts": getopts, "command": command, "type": types,
		"ulimit": ulimit, "trap": trap, "wait": wait, "kill": kill, "jobs": jobs, "times": yes, "hash": yes,
		"echo": own(programs.Echo), "printf": own(programs.Printf), "test": own(programs.Test), "[": own(programs.Test),
	}
}

func yes(*shell, []string) int { return 0 }

// Flags of set.
var flagNames = map[string]rune{"errexit": 'e', "nounset": 'u', "noglob": 'f', "xtrace": 'x', "monitor": 'm', "noexec": 'n'}

func (sh *shell) flag(c rune, on bool) bool {
	at := map[rune]*bool{'e': &sh.errexit, 'u': &sh.nounset, 'f': &sh.noglob, 'x': &sh.xtrace, 'm': &sh.monitor, 'n': &sh.noexec}[c]
	if at == nil {
		return false
	}
	*at = on
	sh.configure()
	return true
}

func (sh *shell) option(name string, on bool) bool { return sh.flag(flagNames[name], on) }

// flags is $-.
func (sh *shell) flags() string {
	var b strings.Builder
	for _, f := range []struct {
		c  byte
		on bool
	}{{'e', sh.errexit}, {'f', sh.noglob}, {'m', sh.monitor}, {'u', sh.nounset}, {'x', sh.xtrace}} {
		if f.on {
			b.WriteByte(f.c)
		}
	}
	return b.String()
}

func set(sh *shell, args []string) int {
	args = args[1:]
	if len(args) == 0 {
		environ{sh}.Each(func(name string, v expand.Variable) bool {
			fmt.Fprintf(sh.p.FD(1), "%s=%s\n", name, quote(v.Str))
			return true
		})
		return 0
	}
	for len(args) > 0 && len(args[0]) > 1 && (args[0][0] == '-' || args[0][0] == '+') {
		word := args[0]
		args = args[1:]
		if word == "--" {
			sh.params = slices.Clone(args)
			return 0
		}
		for _, c := range word[1:] {
			switch {
			case c == 'o' && len(args) > 0 && sh.option(args[0], word[0] == '-'):
				args = args[1:]
			case !sh.flag(c, word[0] == '-'):
				sh.complain("set: Illegal option %s", word)
				sh.exit(2)
				return 2
			}
		}
		if len(args) == 0 {
			return 0
		}
	}
	if args[0] == "-" {
		args = args[1:]
	}
	sh.params = slices.Clone(args)
	return 0
}

func shift(sh *shell, args []string) int {
	n := 1
	if len(args) > 1 {
		n, _ = strconv.Atoi(args[1])
	}
	if n < 0 || n > len(sh.params) {
		sh.complain("shift: can't shift that many")
		sh.exit(2)
		return 2
	}
	sh.params = sh.params[n:]
	return 0
}

// exit is exit and return.
func exit(sh *shell, args []string) int {
	status := sh.status
	if len(args) > 1 {
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 0 {
			sh.complain("%s: Illegal number: %s", args[0], args[1])
			n = 2
		}
		status = n & 0xff
	}
	sh.flow = exiting
	if args[0] == "return" && sh.calls > 0 {
		sh.flow = returning
	}
	sh.status = status
	return status
}

// leaveLoop is break and continue.
func leaveLoop(sh *shell, args []string) int {
	n := 1
	if len(args) > 1 {
		n, _ = strconv.Atoi(args[1])
	}
	if n < 1 {
		sh.complain("%s: Illegal number: %s", args[0], args[1])
		sh.exit(2)
		return 2
	}
	if sh.loops == 0 {
		return 0
	}
	sh.levels, sh.flow = min(n, sh.loops), breaking
	if args[0] == "continue" {
		sh.flow = continuing
	}
	return 0
}

func eval(sh *shell, args []string) int {
	sh.status = 0
	sh.run(strings.Join(args[1:], " "))
	return sh.status
}

func source(sh *shell, args []string) int {
	if len(args) < 2 {
		return 2
	}
	name := args[1]
	if !strings.Contains(name, "/") {
		for dir := range strings.SplitSeq(sh.vars["PATH"].Str, ":") {
			if info, err := sh.p.Stat(path.Join(dir, name), true); err == nil && info.IsRegular() {
				name = path.Join(dir, name)
				break
			}
		}
	}
	text, err := sh.readFile(name)
	if err != nil {
		sh.complain(".: cannot open %s: %v", args[1], err)
		sh.exit(2)
		return 2
	}
	sh.status = 0
	sh.calls++
	sh.run(text)
	if sh.calls--; sh.flow == returning {
		sh.flow = onward
	}
	return sh.status
}

// export is export and readonly.
func export(sh *shell, args []string) int {
	readonly := args[0] == "readonly"
	has := func(v expand.Variable) bool { return readonly && v.ReadOnly || !readonly && v.Exported }
	names := args[1:]
	if len(names) == 0 || names[0] == "-p" {
		for _, name := range slices.Sorted(maps.Keys(sh.vars)) {
			if v := sh.vars[name]; has(v) {
				fmt.Fprintf(sh.p.FD(1), "%s %s=%s\n", args[0], name, quote(v.Str))
			}
		}
		return 0
	}
	for _, arg := range names {
		name, value, given := strings.Cut(arg, "=")
		if !syntax.ValidName(name) {
			sh.complain("%s: %s: bad variable name", args[0], name)
			sh.exit(2)
			return 2
		}
		if given && !sh.set(name, value) {
			return 2
		}
		v := sh.vars[name]
		v.Exported = v.Exported || !readonly
		v.ReadOnly = v.ReadOnly || readonly
		sh.vars[name] = v
	}
	return 0
}

func local(sh *shell, args []string) int {
	if len(sh.locals) == 0 {
		sh.complain("local: not in a function")
		sh.exit(2)
		return 2
	}
	scope := sh.locals[len(sh.locals)-1]
	for _, arg := range args[1:] {
		name, value, given := strings.Cut(arg, "=")
		if _, seen := scope[name]; !seen {
			scope[name] = sh.vars[name]
		}
		if given && !sh.set(name, value) {
			return 2
		}
	}
	return 0
}

func unset(sh *shell, args []string) int {
	functions := false
	for _, arg := range args[1:] {
		switch {
		case arg == "-f" || arg == "-v":
			functions = arg == "-f"
		case functions:
			delete(sh.funcs, arg)
		case sh.vars[arg].ReadOnly:
			sh.complain("unset: %s: is read only", arg)
			sh.exit(2)
			return 2
		default:
			delete(sh.vars, arg)
		}
	}
	return 0
}

func cd(sh *shell, args []string) int {
	args = slices.DeleteFunc(args[1:], func(a string) bool { return a == "-L" || a == "-P" || a == "--" })
	dir, say := sh.vars["HOME"].Str, false
	if len(args) > 0 {
		dir = args[0]
	}
	if dir == "-" {
		dir, say = sh.vars["OLDPWD"].Str, true
	}
	before := sh.vars["PWD"].Str
	next := path.Join(before, dir)
	if strings.HasPrefix(dir, "/") {
		next = path.Clean(dir)
	}
	if dir == "" || sh.p.Chdir(next) != nil {
		sh.complain("cd: can't cd to %s", dir)
		return 2
	}
	sh.set("OLDPWD", before)
	sh.set("PWD", next)
	if say {
		fmt.Fprintln(sh.p.FD(1), next)
	}
	return 0
}

func pwd(sh *shell, args []string) int {
	dir := sh.pwd()
	if slices.Contains(args, "-P") {
		dir = sh.p.Dir()
	}
	fmt.Fprintln(sh.p.FD(1), dir)
	return 0
}

func umask(sh *shell, args []string) int {
	if len(args) < 2 {
		fmt.Fprintf(sh.p.FD(1), "%04o\n", sh.p.Umask(-1))
		return 0
	}
	mask, err := strconv.ParseUint(args[1], 8, 32)
	if err != nil || mask > 0o777 {
		sh.complain("umask: Illegal number: %s", args[1])
		return 2
	}
	sh.p.Umask(int(mask))
	return 0
}

// limitOptions are the options of ulimit: what they limit, and the unit.
var limitOptions = map[string]struct {
	name string
	unit uint64
}{
	"-c": {"core", 512}, "-d": {"data", 1024}, "-f": {"fsize", 512}, "-l": {"memlock", 1024}, "-m": {"rss", 1024},
	"-n": {"nofile", 1}, "-p": {"nproc", 1}, "-s": {"stack", 1024}, "-t": {"cpu", 1}, "-v": {"as", 1024},
}

func ulimit(sh *shell, args []string) int {
	limit, hard := limitOptions["-f"], false
	value := ""
	for _, arg := range args[1:] {
		option, known := limitOptions[arg]
		switch {
		case known:
			limit = option
		case arg == "-H" || arg == "-S":
			hard = arg == "-H"
		case strings.HasPrefix(arg, "-"):
			sh.complain("ulimit: Illegal option %s", arg)
			return 2
		default:
			value = arg
		}
	}
	if value == "" {
		v, most := sh.p.Limit(limit.name)
		if hard {
			v = most
		}
		text := "unlimited"
		if v != spec.RlimitInfinity {
			text = strconv.FormatUint(v/limit.unit, 10)
		}
		fmt.Fprintln(sh.p.FD(1), text)
		return 0
	}
	v := uint64(spec.RlimitInfinity)
	if value != "unlimited" {
		n, err := strconv.ParseUint(value, 10, 50)
		if err != nil {
			sh.complain("ulimit: bad number")
			return 2
		}
		v = n * limit.unit
	}
	if err := sh.p.SetLimit(limit.name, v); err != nil {
		sh.complain("ulimit: error setting limit (%v)", err)
		return 2
	}
	return 0
}

func jobs(sh *shell, _ []string) int {
	for i, pid := range sh.jobs {
		fmt.Fprintf(sh.p.FD(1), "[%d] %d\n", i+1, pid)
	}
	return 0
}

// command runs a command that is no function, or says with -v what a name is.
func command(sh *shell, args []string) int {
	args = args[1:]
	if len(args) > 0 && (args[0] == "-v" || args[0] == "-V") {
		return describe(sh, args[1:], args[0] == "-V")
	}
	if len(args) > 0 && (args[0] == "-p" || args[0] == "--") {
		args = args[1:]
	}
	if len(args) == 0 {
		return 0
	}
	if b := sh.builtins[args[0]]; b != nil && args[0] != "exec" {
		return b(sh, args)
	}
	sh.program(args, nil, nil, false)
	return sh.status
}

func types(sh *shell, args []string) int { return describe(sh, args[1:], true) }

func describe(sh *shell, names []string, long bool) int {
	status := 0
	for _, name := range names {
		what, kind := name, ""
		file, err := sh.p.LookPath(name, sh.vars["PATH"].Str)
		switch {
		case sh.funcs[name] != nil:
			kind = "a shell function"
		case sh.builtins[name] != nil:
			kind = "a shell builtin"
		case err == nil:
			what, kind = file, file
		default:
			status = 127
			if long {
				fmt.Fprintf(sh.p.FD(2), "%s: not found\n", name)
			}
			continue
		}
		if long {
			fmt.Fprintf(sh.p.FD(1), "%s is %s\n", name, kind)
		} else {
			fmt.Fprintln(sh.p.FD(1), what)
		}
	}
	return status
}

// getopts takes the next option of the positional parameters, or of its arguments.
func getopts(sh *shell, args []string) int {
	if len(args) < 3 {
		sh.complain("Usage: getopts optstring var [arg...]")
		return 2
	}
	options, name, list := args[1], args[2], sh.params
	if len(args) > 3 {
		list = args[3:]
	}
	index, _ := strconv.Atoi(sh.vars["OPTIND"].Str)
	index = max(index, 1)
	at, _ := strconv.Atoi(sh.vars["_OPTAT"].Str)
	if index > len(list) || at == 0 && (len(list[index-1]) < 2 || list[index-1][0] != '-' || list[index-1] == "--") {
		if index <= len(list) && list[index-1] == "--" {
			sh.set("OPTIND", strconv.Itoa(index+1))
		}
		sh.set(name, "?")
		return 1
	}
	word := list[index-1]
	at = max(at, 1)
	option := word[at : at+1]
	if at++; at == len(word) {
		at = 0
		index++
	}
	sh.set("OPTARG", "")
	where := strings.Index(options, option)
	switch {
	case where < 0 || option == ":":
		if !strings.HasPrefix(options, ":") {
			sh.complain("Illegal option -%s", option)
		}
		sh.set("OPTARG", option)
		option = "?"
	case where+1 < len(options) && options[where+1] == ':':
		switch {
		case at > 0:
			sh.set("OPTARG", word[at:])
			at = 0
			index++
		case index <= len(list):
			sh.set("OPTARG", list[index-1])
			index++
		default:
			sh.complain("No arg for -%s option", option)
			option = "?"
		}
	}
	sh.set("OPTIND", strconv.Itoa(index))
	sh.set("_OPTAT", strconv.Itoa(at))
	sh.set(name, option)
	return 0
}
