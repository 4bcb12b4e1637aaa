package programs

import (
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/backend/fake/internal/kernel"
	"github.com/berth-dev/berth/files"
)

func basename(p *kernel.Proc) int {
	args := p.Args()[1:]
	if len(args) == 0 {
		return missing(p)
	}
	name := path.Base(args[0])
	if len(args) > 1 && name != args[1] {
		name = strings.TrimSuffix(name, args[1])
	}
	fmt.Fprintln(p.FD(1), name)
	return 0
}

func dirname(p *kernel.Proc) int {
	args := p.Args()[1:]
	if len(args) == 0 {
		return missing(p)
	}
	for _, name := range args {
		fmt.Fprintln(p.FD(1), path.Dir(strings.TrimRight(name, "/")))
	}
	return 0
}

// forEach calls do with every argument and says what went wrong.
func forEach(p *kernel.Proc, args []string, verb string, do func(name string) error) int {
	if len(args) == 0 {
		return missing(p)
	}
	status := 0
	for _, name := range args {
		if err := do(name); err != nil {
			complain(p, "%s '%s': %v", verb, name, err)
			status = 1
		}
	}
	return status
}

func realpath(p *kernel.Proc) int {
	return forEach(p, p.Args()[1:], "cannot resolve", func(name string) error {
		real, err := p.Real(name)
		if err == nil {
			fmt.Fprintln(p.FD(1), real)
		}
		return err
	})
}

func readlink(p *kernel.Proc) int {
	flags, args, ok := options(p, "f")
	if !ok {
		return 2
	}
	status := 0
	for _, name := range args {
		info, err := p.Stat(name, false)
		out := info.Target
		if has(flags, 'f') {
			out, err = p.Real(name)
		}
		if err != nil || out == "" {
			status = 1
			continue
		}
		fmt.Fprintln(p.FD(1), out)
	}
	return status
}

func which(p *kernel.Proc) int {
	searchPath, _ := p.Lookup("PATH")
	status := 0
	for _, name := range p.Args()[1:] {
		file, err := p.LookPath(name, searchPath)
		if err != nil {
			status = 1
			continue
		}
		fmt.Fprintln(p.FD(1), file)
	}
	return status
}

func mktemp(p *kernel.Proc) int {
	flags, args, ok := options(p, "d")
	if !ok {
		return 1
	}
	template := "/tmp/tmp.XXXXXXXXXX"
	if len(args) > 0 {
		template = args[0]
	}
	stem := strings.TrimRight(template, "X")
	for range 100 {
		name := fmt.Sprintf("%s%010x", stem, rand.Uint64()>>24)
		err := p.Mkdir(name)
		if !has(flags, 'd') {
			var f *kernel.File
			if f, err = p.Open(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
				p.Release(f)
			}
		}
		if err == nil {
			fmt.Fprintln(p.FD(1), name)
			return 0
		}
		if err != kernel.EEXIST {
			complain(p, "cannot create '%s': %v", name, err)
			return 1
		}
	}
	return 1
}

func touch(p *kernel.Proc) int {
	_, args, ok := options(p, "am")
	if !ok {
		return 1
	}
	return forEach(p, args, "cannot touch", p.Touch)
}

func mkdir(p *kernel.Proc) int {
	flags, args, ok := options(p, "p")
	if !ok {
		return 1
	}
	return forEach(p, args, "cannot create directory", func(name string) error {
		if !has(flags, 'p') {
			return p.Mkdir(name)
		}
		return mkdirAll(p, name)
	})
}

func mkdirAll(p *kernel.Proc, name string) error {
	if p.IsDir(name) {
		return nil
	}
	if parent := path.Dir(strings.TrimRight(name, "/")); parent != name {
		if err := mkdirAll(p, parent); err != nil {
			return err
		}
	}
	err := p.Mkdir(name)
	if err == kernel.EEXIST && p.IsDir(name) {
		return nil
	}
	return err
}

func rmdir(p *kernel.Proc) int {
	return forEach(p, p.Args()[1:], "failed to remove", func(name string) error {
		if info, err := p.Stat(name, false); err == nil && !info.IsDir() {
			return kernel.ENOTDIR
		}
		return p.Remove(name, false)
	})
}

func rm(p *kernel.Proc) int {
	flags, args, ok := options(p, "rRf")
	if !ok {
		return 1
	}
	if len(args) == 0 && has(flags, 'f') {
		return 0
	}
	all := has(flags, 'r') || has(flags, 'R')
	return forEach(p, args, "cannot remove", func(name string) error {
		info, err := p.Stat(name, false)
		switch {
		case err == kernel.ENOENT && has(flags, 'f'):
			return nil
		case err != nil:
			return err
		case info.IsDir() && !all:
			return kernel.EISDIR
		}
		return p.Remove(name, all)
	})
}

// into is where source goes: below target if that is a directory.
func into(p *kernel.Proc, source, target string) string {
	if p.IsDir(target) {
		return path.Join(target, path.Base(source))
	}
	return target
}

func cp(p *kernel.Proc) int {
	flags, args, ok := options(p, "rRapf")
	if !ok || len(args) < 2 {
		return missing(p)
	}
	deep := has(flags, 'r') || has(flags, 'R') || has(flags, 'a')
	target := args[len(args)-1]
	return forEach(p, args[:len(args)-1], "cannot copy", func(name string) error {
		return copyTree(p, name, into(p, name, target), deep)
	})
}

func copyTree(p *kernel.Proc, from, to string, deep bool) error {
	info, err := p.Stat(from, !deep)
	switch {
	case err != nil:
		return err
	case info.IsDir() && !deep:
		return kernel.EISDIR
	case info.Target != "":
		return p.Symlink(info.Target, to)
	case !info.IsDir():
		return copyFile(p, from, to, info.Mode)
	}
	if err := mkdirAll(p, to); err != nil {
		return err
	}
	entries, err := p.List(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := copyTree(p, path.Join(from, e.Name), path.Join(to, e.Name), true); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(p *kernel.Proc, from, to string, mode fs.FileMode) error {
	in, err := p.Open(from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer p.Release(in)
	out, err := p.Open(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, uint32(mode.Perm()))
	if err != nil {
		return err
	}
	const fd = 20
	p.Put(fd, out)
	defer p.Put(fd, nil)
	_, err = io.Copy(p.FD(fd), input{p, in})
	return err
}

func mv(p *kernel.Proc) int {
	_, args, ok := options(p, "f")
	if !ok || len(args) < 2 {
		return missing(p)
	}
	target := args[len(args)-1]
	return forEach(p, args[:len(args)-1], "cannot move", func(name string) error {
		return p.Rename(name, into(p, name, target))
	})
}

func ln(p *kernel.Proc) int {
	flags, args, ok := options(p, "sfn")
	if !ok {
		return 1
	}
	if !has(flags, 's') {
		complain(p, "hard links are not supported in this place")
		return 1
	}
	if len(args) != 2 {
		return missing(p)
	}
	name := args[1]
	if !has(flags, 'n') {
		name = into(p, args[0], name)
	}
	if has(flags, 'f') {
		_ = p.Remove(name, false)
	}
	return forEach(p, []string{name}, "failed to create symbolic link", func(name string) error {
		return p.Symlink(args[0], name)
	})
}

func chmod(p *kernel.Proc) int {
	args := p.Args()[1:]
	if len(args) < 2 {
		return missing(p)
	}
	return forEach(p, args[1:], "cannot change mode of", func(name string) error {
		info, err := p.Stat(name, true)
		if err != nil {
			return err
		}
		mode, ok := parseMode(args[0], info.Mode.Perm())
		if !ok {
			return kernel.EINVAL
		}
		return p.Chmod(name, mode)
	})
}

// parseMode reads 0755, +x, u+rw, go-w and a=r, the last two also as a list.
func parseMode(s string, before fs.FileMode) (uint32, bool) {
	if n, err := strconv.ParseUint(s, 8, 32); err == nil {
		return uint32(n), n <= 0o777
	}
	mode := uint32(before)
	for part := range strings.SplitSeq(s, ",") {
		at := strings.IndexAny(part, "+-=")
		if at < 0 {
			return 0, false
		}
		var who, what uint32
		for _, c := range part[:at] {
			who |= map[rune]uint32{'u': 0o700, 'g': 0o070, 'o': 0o007, 'a': 0o777}[c]
		}
		if at == 0 {
			who = 0o777
		}
		for _, c := range part[at+1:] {
			bits, ok := map[rune]uint32{'r': 0o444, 'w': 0o222, 'x': 0o111}[c]
			if !ok {
				return 0, false
			}
			what |= bits
		}
		switch part[at] {
		case '+':
			mode |= who & what
		case '-':
			mode &^= who & what
		default:
			mode = mode&^who | who&what
		}
	}
	return mode, true
}

func mkfifo(p *kernel.Proc) int {
	_, args, ok := options(p, "")
	if !ok {
		return 1
	}
	return forEach(p, args, "cannot create fifo", p.Mkfifo)
}

// stat prints by a format: stat [-L] -c format file...
func stat(p *kernel.Proc) int {
	flags, args, ok := options(p, "Lc:")
	if !ok || !has(flags, 'c') {
		complain(p, "-c format is needed")
		return 1
	}
	return forEach(p, args, "cannot stat", func(name string) error {
		info, err := p.Stat(name, has(flags, 'L'))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(p.FD(1), strings.NewReplacer(
			"%n", name, "%s", strconv.FormatInt(info.Size, 10), "%a", strconv.FormatUint(uint64(info.Mode.Perm()), 8),
			"%Y", strconv.FormatInt(info.ModTime.Unix(), 10), "%u", strconv.Itoa(info.UID), "%g", strconv.Itoa(info.GID),
			"%F", kind(info), "%h", strconv.FormatUint(info.Links, 10),
		).Replace(flags['c']))
		return err
	})
}

func kind(info files.Info) string {
	switch info.Mode.Type() {
	case 0:
		return "regular file"
	case fs.ModeDir:
		return "directory"
	case fs.ModeSymlink:
		return "symbolic link"
	case fs.ModeNamedPipe:
		return "fifo"
	}
	return "character special file"
}

// ls lists: ls [-1adlAR] [file...].
func ls(p *kernel.Proc) int {
	flags, args, ok := options(p, "1adlA")
	if !ok {
		return 2
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	line := func(info files.Info, name string) {
		if has(flags, 'l') {
			mode := info.Mode.String()
			if info.Target != "" {
				mode, name = "l"+mode[1:], name+" -> "+info.Target
			}
			name = fmt.Sprintf("%s %d root root %d %s %s", mode, info.Links, info.Size, info.ModTime.UTC().Format("Jan _2 15:04"), name)
		}
		fmt.Fprintln(p.FD(1), name)
	}
	status := forEach(p, args, "cannot access", func(name string) error {
		info, err := p.Stat(name, false)
		if err != nil {
			return err
		}
		if !p.IsDir(name) || has(flags, 'd') {
			line(info, name)
			return nil
		}
		entries, err := p.List(name)
		if err != nil {
			return err
		}
		if len(args) > 1 {
			fmt.Fprintf(p.FD(1), "%s:\n", name)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name, ".") || has(flags, 'a') || has(flags, 'A') {
				line(e, e.Name)
			}
		}
		return nil
	})
	if status != 0 {
		status = 2 // of what was named
	}
	return status
}

// find walks: find [dir...] [-type f|d|l] [-name pattern] [-maxdepth n].
func find(p *kernel.Proc) int {
	args := p.Args()[1:]
	var roots []string
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		roots, args = append(roots, args[0]), args[1:]
	}
	if len(roots) == 0 {
		roots = []string{"."}
	}
	wanted := map[string]string{}
	for ; len(args) > 0 && args[0] != "-print"; args = args[2:] {
		if len(args) < 2 || args[0] != "-type" && args[0] != "-name" && args[0] != "-maxdepth" {
			complain(p, "unknown predicate '%s'", args[0])
			return 1
		}
		wanted[args[0]] = args[1]
	}
	depth := 1 << 20
	if most, ok := wanted["-maxdepth"]; ok {
		depth, _ = strconv.Atoi(most)
	}
	return forEach(p, roots, "cannot walk", func(root string) error {
		info, err := p.Stat(root, false)
		if err != nil {
			return err
		}
		return walk(p, root, info, depth, wanted)
	})
}

func walk(p *kernel.Proc, name string, info files.Info, depth int, wanted map[string]string) error {
	typ, byType := wanted["-type"]
	pattern, byName := wanted["-name"]
	same, _ := path.Match(pattern, path.Base(name))
	letter := map[string]string{"regular file": "f", "directory": "d", "symbolic link": "l", "fifo": "p"}[kind(info)]
	if (!byType || typ == letter) && (!byName || same) {
		if _, err := fmt.Fprintln(p.FD(1), name); err != nil {
			return err
		}
	}
	if !info.IsDir() || depth <= 0 {
		return nil
	}
	entries, err := p.List(name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := walk(p, name+"/"+e.Name, e, depth-1, wanted); err != nil {
			return err
		}
	}
	return nil
}
