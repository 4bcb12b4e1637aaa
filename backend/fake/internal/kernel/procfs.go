package kernel

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/files"
)

func now() time.Time { return time.Now() }

// procFiles are what the directory of a process holds beside fd, cwd and root.
var procFiles = map[string]func(p *Proc) string{
	"cmdline": func(p *Proc) string { return zeroed(p.args) },
	"comm":    func(p *Proc) string { return p.comm() + "\n" },
	"limits":  func(p *Proc) string { return p.limits.text() },
	"environ": func(p *Proc) string { return zeroed(p.env) },
	"stat":    (*Proc).statLine,
	"status":  (*Proc).statusText,
}

// zeroed ends every string with a NUL.
func zeroed(list []string) string {
	var b strings.Builder
	for _, s := range list {
		b.WriteString(s + "\x00")
	}
	return b.String()
}

func (p *Proc) comm() string {
	if len(p.args) == 0 {
		return ""
	}
	name := path.Base(p.args[0])
	return name[:min(len(name), 15)]
}

// state is the letter of the process's state. The caller holds Kernel.mu.
func (p *Proc) state() string {
	switch {
	case p.ended:
		return "Z"
	case p.stopped:
		return "T"
	}
	return "S"
}

// StartTicks is when the process was started, in hundredths of a second after a boot
// that was one before the first of them.
func (p *Proc) StartTicks() uint64 {
	return uint64(p.started.Sub(p.k.booted).Milliseconds()/10) + 1
}

func (p *Proc) statLine() string {
	return fmt.Sprintf("%d (%s) %s %d %d %d 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0\n", p.PID, p.comm(), p.state(), p.ppid, p.pgid, p.sid, p.StartTicks())
}

func (p *Proc) statusText() string {
	mask := func(d Disposition) (bits uint64) {
		for sig, have := range p.dispositions {
			if have == d {
				bits |= 1 << (sig - 1)
			}
		}
		return bits
	}
	return fmt.Sprintf("Name:\t%s\nUmask:\t%04o\nState:\t%s\nPid:\t%d\nPPid:\t%d\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nSigBlk:\t%016x\nSigIgn:\t%016x\nSigCgt:\t%016x\n",
		p.comm(), p.umask, p.state(), p.PID, p.ppid, 0, mask(Ignore), mask(Catch))
}

// procPath splits the name of something below /proc.
func (k *Kernel) procPath(p *Proc, name string) (target *Proc, rest string) {
	first, rest, _ := strings.Cut(strings.TrimPrefix(name, "/proc/"), "/")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return nil, rest
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.procs[pid], rest
}

// isFD reports whether a real name is that of a descriptor.
func isFD(name string) bool {
	match, _ := path.Match("/proc/[0-9]*/fd/[0-9]*", name)
	return match
}

func link(target string) files.Info {
	return files.Info{Mode: fs.ModeSymlink | 0o777, Target: target, Size: int64(len(target)), Links: 1, ModTime: now()}
}

// procStat describes a file below /proc as p sees it, without following it.
func (k *Kernel) procStat(p *Proc, name string) (files.Info, error) {
	info, err := k.procInfo(p, name)
	info.Name = path.Base(name)
	return info, err
}

func (k *Kernel) procInfo(p *Proc, name string) (files.Info, error) {
	dir := files.Info{Mode: fs.ModeDir | 0o555, Links: 1, ModTime: now()}
	if name == "/proc/self" {
		pid := guestPID
		if p != nil {
			pid = p.PID
		}
		return link(strconv.Itoa(pid)), nil
	}
	if name == "/proc/"+strconv.Itoa(guestPID) {
		return dir, nil
	}
	target, rest := k.procPath(p, name)
	if target == nil {
		return files.Info{}, ENOENT
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case rest == "" || rest == "fd":
		return dir, nil
	case rest == "cwd":
		return link(target.dir), nil
	case rest == "root":
		return link("/"), nil
	case procFiles[rest] != nil:
		return files.Info{Mode: 0o444, Links: 1, ModTime: now()}, nil
	}
	if n, ok := strings.CutPrefix(rest, "fd/"); ok {
		fd, err := strconv.Atoi(n)
		if f := target.files[fd]; err == nil && f != nil {
			return link(f.file.name()), nil
		}
	}
	return files.Info{}, ENOENT
}

// procList lists a directory below /proc, or /proc itself.
func (k *Kernel) procList(name string) []files.Info {
	var names []string
	target, rest := k.procPath(nil, name)
	k.mu.Lock()
	switch {
	case name == "/proc":
		names = append(names, "self", strconv.Itoa(guestPID))
		for pid := range k.procs {
			names = append(names, strconv.Itoa(pid))
		}
	case target != nil && rest == "fd":
		for fd := range target.files {
			names = append(names, strconv.Itoa(fd))
		}
	case target != nil:
		names = append(names, "cwd", "fd", "root")
		for file := range procFiles {
			names = append(names, file)
		}
	}
	k.mu.Unlock()
	slices.Sort(names)
	var out []files.Info
	for _, n := range names {
		if info, err := k.procStat(nil, path.Join(name, n)); err == nil {
			out = append(out, info)
		}
	}
	return out
}

// openProc opens a file below /proc.
func (k *Kernel) openProc(name string, flag int) (*File, error) {
	target, rest := k.procPath(nil, name)
	k.mu.Lock()
	defer k.mu.Unlock()
	if target == nil {
		return nil, EISDIR
	}
	if n, ok := strings.CutPrefix(rest, "fd/"); ok {
		fd, _ := strconv.Atoi(n)
		if f := target.files[fd]; f != nil {
			f.refs++
			return f, nil
		}
		return nil, ENOENT
	}
	content := procFiles[rest]
	switch {
	case content == nil:
		return nil, EISDIR
	case flag&accessMode != os.O_RDONLY:
		return nil, EACCES
	case target.ended && rest != "stat" && rest != "status" && rest != "comm":
		return newFile(&text{path: name}), nil
	}
	return newFile(&text{path: name, rest: []byte(content(target))}), nil
}
