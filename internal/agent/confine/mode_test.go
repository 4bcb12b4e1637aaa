//go:build linux

package confine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// modes tries in every way to make a file that runs as its owner, and a directory that
// hands on its group.
func modes([]string) error {
	say := func(what string, err error) { fmt.Println(what, name(err)) }
	f, err := os.Create("file")
	if err != nil {
		return err
	}
	fd := int(f.Fd())
	if err := errors.Join(os.Mkdir("dir", 0o755), os.Symlink("/proc/self/cwd", "magic")); err != nil {
		return err
	}
	at := func(p string) uintptr { return uintptr(bufPointer([]byte(p + "\x00"))) }
	chmodat := func(number uintptr, dir int, p string, mode, flags uintptr) error {
		return raw(number, uintptr(dir), at(p), mode, flags)
	}
	for _, mode := range []uint32{0o4755, 0o2755, 0o6711} {
		say(fmt.Sprintf("mode %o", mode), nil)
		say("chmod", unix.Chmod("file", mode))
		say("fchmod", unix.Fchmod(fd, mode))
		say("fchmodat", chmodat(unix.SYS_FCHMODAT, unix.AT_FDCWD, "file", uintptr(mode), 0))
		say("fchmodat2", chmodat(unix.SYS_FCHMODAT2, unix.AT_FDCWD, "file", uintptr(mode), 0))
		say("fchmodat2 of a descriptor", chmodat(unix.SYS_FCHMODAT2, fd, "", uintptr(mode), unix.AT_EMPTY_PATH))
		_, err := unix.Open("made", unix.O_CREAT|unix.O_RDWR, mode)
		say("open", err)
		_, err = unix.Openat(unix.AT_FDCWD, "made", unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, mode)
		say("openat", err)
		_, err = unix.Open(".", unix.O_TMPFILE|unix.O_RDWR, mode)
		say("O_TMPFILE", err)
		_, err = unix.Openat2(unix.AT_FDCWD, "made", &unix.OpenHow{Flags: unix.O_CREAT | unix.O_RDWR, Mode: uint64(mode)})
		say("openat2", err)
		say("mknod", unix.Mknod("made", unix.S_IFREG|mode, 0))
		say("mknodat", unix.Mknodat(unix.AT_FDCWD, "made", unix.S_IFREG|mode, 0))
	}
	say("mkdir", unix.Mkdir("made", 0o2775))
	dir, err := unix.Open("dir", unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	path, err := unix.Open("dir", unix.O_DIRECTORY|unix.O_PATH, 0)
	if err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	for what, give := range map[string]func() error{
		"chmod":                     func() error { return unix.Chmod("dir", 0o2775) },
		"chmod by its path":         func() error { return unix.Chmod(filepath.Join(here, "dir"), 0o2775) },
		"fchmod":                    func() error { return unix.Fchmod(dir, 0o2775) },
		"fchmodat":                  func() error { return chmodat(unix.SYS_FCHMODAT, dir, "../dir", 0o2775, 0) },
		"fchmodat2":                 func() error { return chmodat(unix.SYS_FCHMODAT2, dir, ".", 0o2775, unix.AT_SYMLINK_NOFOLLOW) },
		"chmod of a descriptor":     func() error { return unix.Chmod(fmt.Sprint("/proc/self/fd/", path), 0o2775) },
		"fchmodat2 of a descriptor": func() error { return chmodat(unix.SYS_FCHMODAT2, path, "", 0o2775, unix.AT_EMPTY_PATH) },
	} {
		if err := unix.Chmod("dir", 0o755); err != nil {
			return err
		}
		err := give()
		if info, statErr := os.Stat("dir"); statErr != nil || info.Mode() != fs.ModeDir|fs.ModeSetgid|0o775 {
			return fmt.Errorf("%s: %w, the directory is %v, %w", what, err, info.Mode(), statErr)
		}
	}
	say("nothing", unix.Chmod("none", 0o2775))
	if err := unix.Mkfifo("pipe", 0o600); err != nil {
		return err
	}
	say("a pipe", unix.Chmod("pipe", 0o4755))
	say("on a read-only mount", unix.Chmod("/usr", 0o2755))
	say("no name", chmodat(unix.SYS_FCHMODAT, dir, "", 0o2775, 0))
	say("no such flag", chmodat(unix.SYS_FCHMODAT2, dir, ".", 0o2775, 0x8000))
	say("no descriptor", unix.Fchmod(-1, 0o2775))
	say("bad address", raw(unix.SYS_FCHMODAT, uintptr(dir), 8, 0o2775))
	say("a magic link", unix.Chmod("magic/dir", 0o2775))
	say("too long", unix.Chmod(strings.Repeat("x/", 2048)+"x", 0o2775))
	return nil
}

// noPrivileged wants no file below dir that runs as its owner or as its group.
func noPrivileged(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestModes defends: no command leaves a file behind that runs as its owner, who may be root
// on disk; directories get the bit by which they hand on their group.
func TestModes(t *testing.T) {
	var want strings.Builder
	for _, mode := range []int{0o4755, 0o2755, 0o6711} {
		fmt.Fprintf(&want, "mode %o ok\n", mode)
		for _, what := range []string{"chmod", "fchmod", "fchmodat", "fchmodat2", "fchmodat2 of a descriptor", "open", "openat", "O_TMPFILE"} {
			fmt.Fprintln(&want, what, "EPERM")
		}
		want.WriteString("openat2 ENOSYS\nmknod EPERM\nmknodat EPERM\n")
	}
	want.WriteString("mkdir ok\nnothing ENOENT\na pipe EPERM\non a read-only mount EROFS\nno name ENOENT\nno such flag EINVAL\nno descriptor EBADF\nbad address EFAULT\na magic link EPERM\ntoo long ENAMETOOLONG\n")
	for what, p := range places(t) {
		t.Run(what, func(t *testing.T) {
			dir := openDir(t)
			if diff := cmp.Diff(want.String(), p.run(t, dir, "modes")); diff != "" {
				t.Error(diff)
			}
			noPrivileged(t, dir)
		})
	}
}

// TestModesOfPrograms defends: programs that copy, unpack and share trees work where such
// files cannot be made, in a directory that hands on its group too.
func TestModesOfPrograms(t *testing.T) {
	for script, want := range map[string]string{
		"cp /bin/sh rb; chmod 6755 rb 2>/dev/null || echo refused; ./rb -c 'echo works'":                                                                                 "refused\nworks\n",
		"chmod g+s . && mkdir -p a/b && chmod -R u+w . && test -g a/b && echo works":                                                                                     "works\n",
		"chmod g+s . && mkdir d && cp -rp d e && cp -r d f && test -g e && echo works":                                                                                   "works\n",
		"mkdir t && echo x >t/f && chmod 2775 t && tar cf t.tar t && mkdir u && tar xf t.tar -C u && cat u/t/f":                                                          "x\n",
		"git init -q --shared=group g && cd g && echo x >f && git add f && git -c user.name=n -c user.email=e commit -qm m && cd .. && git clone -q g h && cat h/f":      "x\n",
		"install -d -m 2775 i && install -m 755 /bin/true i/t && i/t && test -g i && echo works":                                                                         "works\n",
		"mkfifo -m 600 p && test -p p && echo works":                                                                                                                     "works\n",
		"python3 -c 'import os, tempfile; f = tempfile.TemporaryFile(dir=\".\"); os.makedirs(\"x/y\", 0o2755); os.chmod(\"x\", 0o2755); print(\"works\")' || echo works": "works\n",
	} {
		if word := strings.Fields(script)[0]; word == "git" {
			if _, err := exec.LookPath(word); err != nil {
				continue
			}
		}
		for what, p := range places(t) {
			p.env = []string{"HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
			dir := openDir(t)
			if out, err := p.try(t, dir, "exec", "sh", "-c", script); err != nil || out != want {
				t.Errorf("%s, %s: %q, %v", what, script, out, err)
			}
			noPrivileged(t, dir)
		}
	}
}
