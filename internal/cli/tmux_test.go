//go:build linux

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/testutil/dockertest"
)

// pane is a terminal emulator of its own, with a shell in it that runs berth.
type pane struct {
	t      *testing.T
	socket string
	env    []string
}

// newPane starts one in a directory, with an environment; it is gone after the test.
func newPane(t *testing.T, dir string, env []string) *pane {
	t.Helper()
	p := &pane{t: t, socket: filepath.Join(t.TempDir(), "tmux"), env: append(env, "PS1=outer> ", "SHELL=/bin/sh", "TERM=xterm-256color", "LC_ALL=C.UTF-8")}
	p.tmux("-f", "/dev/null", "new-session", "-d", "-x", "90", "-y", "24", "-c", dir, "sh")
	t.Cleanup(func() {
		cmd := p.command("kill-server")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("tmux: %v: %s", err, out)
		}
	})
	p.wait(`outer>`)
	return p
}

func (p *pane) command(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-S", p.socket}, args...)...)
	cmd.Env = p.env
	return cmd
}

func (p *pane) tmux(args ...string) string {
	p.t.Helper()
	out, err := p.command(args...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// keys types keys as tmux names them; literal types text.
func (p *pane) keys(keys ...string) { p.t.Helper(); p.tmux(append([]string{"send-keys"}, keys...)...) }

func (p *pane) line(text string) { p.t.Helper(); p.tmux("send-keys", "-l", text); p.keys("Enter") }
func (p *pane) screen() string   { p.t.Helper(); return p.tmux("capture-pane", "-p") }

// wait waits until the screen matches.
func (p *pane) wait(pattern string) {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	var seen string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if seen = p.screen(); re.MatchString(seen) {
			return
		}
	}
	p.t.Fatalf("the screen does not show %q but:\n%s", pattern, seen)
}

// settle waits until the screen has not changed for a moment, and returns it.
func (p *pane) settle() string {
	p.t.Helper()
	last, since := p.screen(), time.Now()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if now := p.screen(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > time.Second {
			return last
		}
	}
	p.t.Fatalf("the screen does not come to rest")
	return ""
}

// waitSame waits until the screen is as it was, and stays so.
func (p *pane) waitSame(before string) {
	p.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if p.settle() == before {
			return
		}
	}
	p.t.Fatalf("the screen after the reattach:\n%s\nwant:\n%s", p.screen(), before)
}

// vimPrograms are the files by which the vim of this machine runs elsewhere.
func vimPrograms(t *testing.T, dir string) {
	t.Helper()
	out, err := exec.Command("sh", "-c", `vim=$(readlink -f "$(command -v vim)"); echo "$vim"; ldd "$vim" | grep -o '/[^ ]*'`).Output()
	if err != nil {
		t.Fatalf("vim: %v", err)
	}
	for i, name := range strings.Fields(string(out)) {
		base := filepath.Base(name)
		if i == 0 {
			base = "vim"
		}
		data, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, base), data, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile("/lib/terminfo/x/xterm-256color")
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "terminfo", "x"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "terminfo", "x", "xterm-256color"), data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// berth shell, as a person uses it.
func TestShellInTmux(t *testing.T) {
	for _, test := range []struct {
		name string
		up   []string
	}{
		{"none", []string{"--isolation", "none"}},
		{"guard", []string{"--isolation", "guard"}},
		{"docker", []string{"--backend", "docker", "--image", ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			up, dir := berthCommand(t, append([]string{"up", "--key", "k"}, test.up...)...)
			vim := "vim"
			if test.name == "docker" {
				var engine dockertest.Engine
				up.Env = append(up.Environ(), "DOCKER_HOST="+engine.Host(t), "BERTH_STATE_DIR="+filepath.Join(dir, "state"))
				t.Cleanup(func() {
					if err := engine.Close(); err != nil {
						t.Error(err)
					}
				})
				up.Args[len(up.Args)-1] = engine.Image(t, dockertest.Image{Kind: dockertest.Busybox})
				vim = "env TERMINFO=/vim/terminfo /vim/ld-linux-x86-64.so.2 --library-path /vim /vim/vim"
			}
			run := func(args ...string) {
				t.Helper()
				cmd := exec.Command("berth", args...)
				cmd.Env, cmd.Dir = up.Env, up.Dir
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("berth %q: %v\n%s", args, err, out)
				}
			}
			run(up.Args[1:]...)
			t.Cleanup(func() { run("down", "--key", "k") })
			if test.name == "docker" {
				programs := filepath.Join(dir, "programs")
				if err := os.Mkdir(programs, 0o755); err != nil {
					t.Fatal(err)
				}
				vimPrograms(t, programs)
				run("cp", programs, "k:/vim")
			}
			driveShell(t, newPane(t, up.Dir, up.Env), vim+" -u NONE -i NONE -n --cmd 'set enc=utf-8 tenc=utf-8'")
		})
	}
}

// driveShell works in a shell on a pane.
func driveShell(t *testing.T, p *pane, vim string) {
	p.line("berth shell --key k --env PS1='inner> ' -- /bin/sh")
	p.wait(`(?m)^inner>$`)
	p.line("stty size; echo 'name='$0")
	p.wait(`(?m)^24 90\nname=/bin/sh$`)

	// A resize is seen, by the shell and by what runs in it.
	p.tmux("resize-window", "-x", "70", "-y", "20")
	p.settle()
	p.line("clear; stty size")
	p.wait(`(?m)^20 70$`)

	// Ctrl-C reaches the program and neither the shell nor us.
	p.line("sleep 1000")
	p.settle()
	p.keys("C-c")
	p.line("echo interrupted=$?")
	p.wait(`interrupted=130`)

	// vim opens, is there after a reattach as it was, and quits.
	p.line("clear; " + vim + " notes")
	p.wait(`(?m)^~\s*$`)
	p.keys("i")
	p.tmux("send-keys", "-l", "a line in vim, ünïcödé ✓")
	p.wait(`a line in vim, ünïcödé ✓`)
	p.keys("Escape")
	p.line(":echo") // vim keeps no message when it draws anew
	before := p.settle()
	p.keys("C-p", "C-q")
	p.wait(`detached; .berth shell --key k --attach term-1. shows`)
	if screen := p.settle(); strings.Contains(screen, "a line in vim") {
		t.Errorf("the screen of vim is left after the detach:\n%s", screen)
	}
	p.line("clear; berth shell --key k --attach")
	p.waitSame(before)
	p.keys("Escape")
	p.line(":wq")
	p.wait(`(?m)^inner>$`)
	p.line("clear; cat notes")
	p.wait(`a line in vim, ünïcödé ✓\ninner>`)

	// A shell too is there as it was, at another size as well; nothing is typed that was not.
	before = p.settle()
	p.keys("C-p", "C-q")
	p.wait(`detached;`)
	p.line("clear; berth shell --key k --attach term-1")
	p.waitSame(before)

	// What is typed right before the detach keys is typed; what the program has set or begun
	// is undone.
	p.line(`clear; printf '\033[5;10r\033[4h\033[?6h\033[?2004h'`)
	p.settle()
	const modes = "#{scroll_region_upper} #{scroll_region_lower} #{insert_flag} #{origin_flag}"
	set := p.tmux("display-message", "-p", modes)
	for late := time.Now().Add(30 * time.Second); set != "4 9 1 1\n"; set = p.tmux("display-message", "-p", modes) {
		if time.Now().After(late) {
			t.Errorf("region, insert and origin mode as the program has set them: %s", set)
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	p.keys("printf '\\033]0;half'; echo 1 > kept", "Enter", "C-p", "C-q")
	p.wait(`detached;`)
	// An editor of lines has asked where the cursor is; the answer goes to whoever reads then.
	p.wait(`(?m)^(\^\[\[\d+;\d+R)?outer>$`)
	if got := p.tmux("display-message", "-p", modes); got != "0 19 0 0\n" {
		t.Errorf("region, insert and origin mode after the detach: %s", got)
	}
	p.line("clear; berth shell --key k --attach")
	p.settle()
	p.line(`printf '\033\134\033c'; echo kept=$(cat kept)`)
	p.wait(`kept=1\ninner>`)

	// exit ends it, and its status is ours.
	p.line("exit 42")
	p.wait(`(?m)^outer>$`)
	p.line("echo status=$?")
	p.wait(`status=42`)

	// A killed terminal says so; a program that cannot be started does, too.
	p.line("clear; berth shell --key k --env PS1='inner> ' -- /bin/sh")
	p.wait(`(?m)^inner>$`)
	p.line("kill -9 $$")
	p.wait(`(?m)^outer>$`)
	p.line("echo status=$?; berth shell --key k -- absent; echo status=$?")
	p.wait(`status=137`)
	p.wait(`hint: the program is looked up inside(?s:.*)status=12[67]`)

	// A login shell by default.
	p.line("clear; berth shell --key k")
	p.settle()
	p.line(`echo "name=<$0>"; exit 3`)
	p.wait(`name=<-`)
	p.wait(`(?m)^outer>$`)
	p.line("echo status=$?")
	p.wait(`status=3`)
}
