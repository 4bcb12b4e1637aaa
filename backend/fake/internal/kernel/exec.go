package kernel

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/memfs"
)

// magic begins a file that stands for a program of the kernel; its name follows.
const magic = "\x00program of backend/fake\x00"

// maxScripts is how many interpreters may be scripts of another.
const maxScripts = 4

// Install makes path a file that runs as the program called name.
func Install(fs *memfs.FS, path, name string) error {
	h, err := fs.OpenFile(path, os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = h.Append([]byte(magic + name + "\n"))
	return err
}

// Exec replaces the program of the process: its name is looked for on path, which is a
// PATH. It returns only if there is none, with the reason. The caller returns to the
// kernel with what ran.
func (p *Proc) Exec(args, env []string, searchPath string) (Main, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	p.k.mu.Lock()
	p.env = env
	p.k.mu.Unlock()
	return p.load(args, searchPath)
}

// load finds the program that args name and makes p ready to run it.
func (p *Proc) load(args []string, searchPath string) (Main, error) {
	if p.k.hooks.Exec != nil {
		if main := p.k.hooks.Exec(p, args); main != nil {
			p.become(args)
			return main, nil
		}
	}
	file, err := p.LookPath(args[0], searchPath)
	if err != nil {
		return nil, err
	}
	for range maxScripts {
		head, err := p.head(file)
		if err != nil {
			return nil, err
		}
		if name, ok := strings.CutPrefix(head, magic); ok {
			main := p.k.programs[strings.TrimSuffix(name, "\n")]
			if main == nil {
				return nil, ENOEXEC
			}
			p.become(args)
			return main, nil
		}
		line, ok := strings.CutPrefix(head, "#!")
		if !ok {
			return nil, ENOEXEC
		}
		line, _, _ = strings.Cut(line, "\n")
		interpreter, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
		next := []string{interpreter}
		if arg = strings.TrimSpace(arg); arg != "" {
			next = append(next, arg)
		}
		args = append(append(next, file), args[1:]...)
		if file, err = p.LookPath(interpreter, ""); err != nil {
			return nil, err
		}
	}
	return nil, ELOOP
}

// become gives the process its arguments, and its caught signals their default.
func (p *Proc) become(args []string) {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	p.args = slices.Clone(args)
	p.held = 0
	for _, list := range [][]string{p.args, p.env} {
		for _, s := range list {
			p.held += int64(len(s)) + 1
		}
	}
	p.mostHeld = max(p.mostHeld, p.held)
	for sig, d := range p.dispositions {
		if d == Catch {
			delete(p.dispositions, sig)
		}
	}
	p.sink = nil
}

// LookPath returns the file that name runs: one with a slash as it is, another by a
// PATH. What is there and cannot be executed is EACCES.
func (p *Proc) LookPath(name, searchPath string) (string, error) {
	if strings.Contains(name, "/") {
		return name, p.executable(name)
	}
	result := error(ENOENT)
	for _, dir := range strings.Split(searchPath, ":") {
		if dir == "" {
			dir = "."
		}
		file := path.Join(dir, name)
		err := p.executable(file)
		if err == nil {
			return file, nil
		}
		if err == EACCES {
			result = err
		}
	}
	return "", result
}

func (p *Proc) executable(name string) error {
	info, err := p.Stat(name, true)
	switch {
	case err != nil:
		return err
	case !info.IsRegular() || info.Mode&0o111 == 0:
		return EACCES
	}
	return nil
}

// head reads the beginning of a file.
func (p *Proc) head(name string) (string, error) {
	f, err := p.k.openPath(p, p.dir, name, os.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer p.Release(f)
	buf := make([]byte, 256)
	n, err := f.file.read(p, buf)
	if err != nil && err != io.EOF {
		return "", err
	}
	return string(bytes.Clone(buf[:n])), nil
}

// Stat describes a file.
func (p *Proc) Stat(name string, follow bool) (files.Info, error) {
	at, err := p.k.find(p, p.dir, name, follow)
	if err != nil {
		return files.Info{}, err
	}
	return at.info, nil
}

// IsDir reports whether name leads to a directory.
func (p *Proc) IsDir(name string) bool {
	info, err := p.Stat(name, true)
	return err == nil && info.Mode.Type() == fs.ModeDir
}
