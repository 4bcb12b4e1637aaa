// Package programs are the programs of the places of backend/fake: what POSIX and GNU
// coreutils have under these names, as far as scripts of agents need it. An option that
// a program has not is refused with status 2, never passed over.
package programs

import (
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/berth-dev/berth/backend/fake/internal/kernel"
)

// Table returns all programs by their names.
func Table() map[string]kernel.Main {
	args := func(f func(p *kernel.Proc, args []string) int) kernel.Main {
		return func(p *kernel.Proc) int { return f(p, p.Args()) }
	}
	status := func(code int) kernel.Main { return func(*kernel.Proc) int { return code } }
	return map[string]kernel.Main{
		"true": status(0), "false": status(1),
		"echo": echo, "printf": args(Printf), "test": args(Test), "[": args(Test), "kill": args(Kill),
		"cat": cat, "head": head, "tail": tail, "wc": wc, "tee": tee, "sort": sortLines, "uniq": uniq, "tr": tr, "cut": cut,
		"grep": grep, "seq": seq, "yes": yes,
		"env": env, "printenv": printenv, "pwd": pwd, "sleep": sleep, "date": date, "setsid": setsid, "timeout": timeout, "xargs": xargs,
		"whoami": says("root"), "hostname": says("fake"), "uname": says("Linux"), "id": says("uid=0(root) gid=0(root) groups=0(root)"),
		"basename": basename, "dirname": dirname, "realpath": realpath, "readlink": readlink, "which": which, "mktemp": mktemp,
		"touch": touch, "mkdir": mkdir, "rmdir": rmdir, "rm": rm, "cp": cp, "mv": mv, "ln": ln, "ls": ls, "find": find,
		"chmod": chmod, "mkfifo": mkfifo, "stat": stat, "sha256sum": sha256sum, "sync": status(0), "stty": stty, "tty": tty,
	}
}

// options takes the options off the arguments: letters that stand alone, and those
// before a ":" in known, which have a value. Where known begins with "#", -5 is -n 5. It
// says what is wrong and returns false for any other.
func options(p *kernel.Proc, known string) (flags map[byte]string, args []string, ok bool) {
	flags = map[byte]string{}
	args = p.Args()[1:]
	known, numbers := strings.CutPrefix(known, "#")
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		word := args[0]
		args = args[1:]
		if word == "--" {
			break
		}
		if numbers && strings.Trim(word[1:], "0123456789") == "" {
			flags['n'] = word[1:]
			continue
		}
		for i := 1; i < len(word); i++ {
			at := strings.IndexByte(known, word[i])
			if at < 0 || word[i] == ':' {
				return nil, nil, usage(p, word)
			}
			if at+1 == len(known) || known[at+1] != ':' {
				flags[word[i]] = ""
				continue
			}
			value := word[i+1:]
			if value == "" {
				if len(args) == 0 {
					return nil, nil, usage(p, word)
				}
				value, args = args[0], args[1:]
			}
			flags[word[i]] = value
			break
		}
	}
	return flags, args, true
}

func usage(p *kernel.Proc, option string) bool {
	complain(p, "unrecognized option '%s'", option)
	return false
}

func has(flags map[byte]string, c byte) bool {
	_, ok := flags[c]
	return ok
}

// complain prints an error as programs do.
func complain(p *kernel.Proc, format string, args ...any) {
	fmt.Fprintf(p.FD(2), "%s: %s\n", path.Base(p.Args()[0]), fmt.Sprintf(format, args...))
}

// missing says that there are too few arguments.
func missing(p *kernel.Proc) int {
	complain(p, "missing operand")
	return 1
}

// says returns a program that prints a line.
func says(line string) kernel.Main {
	return func(p *kernel.Proc) int {
		fmt.Fprintln(p.FD(1), line)
		return 0
	}
}

// input is an open file of a process, or its standard input.
type input struct {
	p *kernel.Proc
	f *kernel.File
}

func (in input) Read(b []byte) (int, error) {
	if in.f == nil {
		return in.p.Read(0, b)
	}
	return in.p.ReadFile(in.f, b)
}

func (in input) close() {
	if in.f != nil {
		in.p.Release(in.f)
	}
}

// each calls do with every file that names name, the standard input for "-" and for no
// name at all. It returns 1 if one could not be read.
func each(p *kernel.Proc, names []string, do func(name string, r io.Reader) error) int {
	if len(names) == 0 {
		names = []string{"-"}
	}
	status := 0
	for _, name := range names {
		in := input{p: p}
		var err error
		switch {
		case name == "-":
		case p.IsDir(name):
			err = kernel.EISDIR
		default:
			in.f, err = p.Open(name, os.O_RDONLY, 0)
		}
		if err == nil {
			err = do(name, in)
			in.close()
		}
		if err == kernel.ErrKilled {
			return 1
		}
		if err != nil {
			complain(p, "%s: %v", name, err)
			status = 1
		}
	}
	return status
}
