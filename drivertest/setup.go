package drivertest

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// setupCases are about what a command is made into before it begins.
func setupCases() []Case {
	return []Case{
		{Name: "UserIsHonoured", Rule: "User runs the command as another user of the place, with that user's group and rights; without Caps.CommandUser it is unsupported, and nothing runs.", Need: needShell, Run: setupUser},
		{Name: "UserStaysOut", Rule: "A directory that the command's user cannot reach is invalid_path, a program that it cannot run start_failed; both are caused by fs.ErrPermission.", Need: all(needShell, needCommandUser), Run: setupClosed},
		{Name: "UserMustExist", Rule: "A user or group that the place does not know is invalid, and nothing runs.", Need: all(needShell, needCommandUser), Run: setupUnknown},
		{Name: "UmaskIsHonoured", Rule: "Umask is the command's file mode creation mask; nil: the place's.", Need: needShell, Run: setupUmask},
		{Name: "RlimitsAreHonoured", Rule: "Rlimits are set, soft and hard, before the program begins.", Need: needShell, Run: setupRlimits},
		{Name: "RlimitsAreNotLifted", Rule: "A limit above the place's hard one is refused with permission, an unknown one with invalid; nothing runs.", Need: needShell, Run: setupHard},
		{Name: "SetupIsInvisible", Rule: "Nothing of what sets a command up is seen in it: arguments, environment, descriptors, session and signals are as without.", Need: needShell, Run: setupInvisible},
		{Name: "SetupFailuresAreExact", Rule: "A program that cannot be started is start_failed with its cause, whatever was to be set up before.", Run: setupMissing},
	}
}

func needCommandUser(c spec.Caps) string {
	if !c.CommandUser {
		return "command_user"
	}
	return ""
}

// status runs cat on its own status and returns the fields of one line of it.
func (e *Env) status(ctx context.Context, t T, o berth.ExecOptions, name string) []string {
	t.Helper()
	r := e.Exec(ctx, t, []string{"cat", "/proc/self/status"}, o)
	for line := range strings.Lines(string(r.Stdout)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.Fields(value)
		}
	}
	t.Errorf("no %s in %q %q", name, r.Stdout, r.Stderr)
	return nil
}

func setupUser(ctx context.Context, t T, e *Env) {
	if !e.Caps.CommandUser {
		name := e.file("ran")
		_, err := e.Sandbox.Exec(ctx, berth.Shell("echo x >"+name), berth.ExecOptions{User: "0"})
		wantError(t, "a user without the capability", err, spec.ErrUnsupported)
		_, err = e.Sandbox.Files().ReadFile(ctx, name)
		wantError(t, "what it would have written", err, spec.ErrFileNotFound)
		return
	}
	for _, try := range []struct{ user, uid, gid string }{
		{"12345", "12345", "12345"}, {"12345:777", "12345", "777"}, {"0", "0", "0"}, {"root", "0", "0"},
	} {
		o := berth.ExecOptions{Dir: "/", User: try.user}
		if try.user == "root" {
			if _, err := e.Sandbox.Files().Stat(ctx, "/etc/passwd", files.StatOptions{}); err != nil {
				continue // nobody has a name here
			}
		}
		uids, gids := e.status(ctx, t, o, "Uid"), e.status(ctx, t, o, "Gid")
		for _, list := range []struct {
			got  []string
			want string
		}{{uids, try.uid}, {gids, try.gid}} {
			if len(list.got) != 4 || slices.ContainsFunc(list.got, func(id string) bool { return id != list.want }) {
				t.Errorf("%s: user %v, group %v", try.user, uids, gids)
			}
		}
	}
	o := berth.ExecOptions{Dir: "/", User: "12345"}
	if groups := e.status(ctx, t, o, "Groups"); len(groups) > 0 && !slices.Equal(groups, []string{"12345"}) {
		t.Errorf("a number has the groups %v", groups)
	}
	if caps := e.status(ctx, t, o, "CapEff"); len(caps) != 1 || strings.Trim(caps[0], "0") != "" {
		t.Errorf("it keeps the capabilities %v", caps)
	}
}

func setupClosed(ctx context.Context, t T, e *Env) {
	dir := e.file("closed")
	if err := e.Sandbox.Files().Mkdir(ctx, dir, files.MkdirOptions{}); err != nil {
		t.Fatalf("mkdir: %v", err)
	}
	if err := e.Sandbox.Files().Chmod(ctx, dir, 0o700); err != nil {
		t.Fatalf("chmod: %v", err)
	}
	_, err := e.Sandbox.Exec(ctx, []string{"true"}, berth.ExecOptions{Dir: dir, User: "12345"})
	wantError(t, "a closed directory", err, spec.ErrInvalidPath, fs.ErrPermission)
	name := "/tmp/" + e.file("closed-program")
	e.write(ctx, t, name, []byte("#!/bin/sh\n"), files.WriteOptions{Mode: 0o700})
	defer func() { _ = e.Sandbox.Files().Remove(ctx, name, files.RemoveOptions{}) }()
	_, err = e.Sandbox.Exec(ctx, []string{name}, berth.ExecOptions{Dir: "/", User: "12345"})
	wantError(t, "a closed program", err, spec.ErrStartFailed, fs.ErrPermission)
}

func setupUnknown(ctx context.Context, t T, e *Env) {
	name := e.file("ran")
	for _, user := range []string{"no-such-user", "0:no-such-group", "4294967296", "-1", "0:-1", ":0", "0:0:0"} {
		_, err := e.Sandbox.Exec(ctx, berth.Shell("echo x >"+name), berth.ExecOptions{User: user})
		wantError(t, user, err, spec.ErrInvalid)
	}
	_, err := e.Sandbox.Files().ReadFile(ctx, name)
	wantError(t, "what they would have written", err, spec.ErrFileNotFound)
}

func setupUmask(ctx context.Context, t T, e *Env) {
	own := e.Sh(ctx, t, "umask").Stdout
	for _, mask := range []fs.FileMode{0, 0o027, 0o777} {
		name := e.file("umask")
		c := e.Cmd(ctx, "/bin/sh", "-c", `umask; echo x >"$1"`, "sh", name)
		c.Umask = &mask
		out, err := c.Output()
		if err != nil {
			t.Fatalf("umask %#o: %v", mask, err)
		}
		wantText(t, "umask", out, fmt.Sprintf("%04o\n", mask))
		info, err := e.Sandbox.Files().Stat(ctx, name, files.StatOptions{})
		if want := 0o666 &^ mask; err != nil || info.Mode.Perm() != want {
			t.Errorf("under umask %#o the file has mode %v, %v; want %v", mask, info.Mode, err, want)
		}
	}
	wantText(t, "the place's afterwards", e.Sh(ctx, t, "umask").Stdout, string(own))
	bad := fs.FileMode(0o1000)
	_, err := e.Sandbox.Exec(ctx, []string{"true"}, berth.ExecOptions{Umask: &bad})
	wantError(t, "a umask out of range", err, spec.ErrInvalid)
}

// limit returns the soft and the hard limit that /proc/self/limits names so.
func limit(t T, limits []byte, name string) (soft, hard string) {
	t.Helper()
	_, rest, _ := strings.Cut(string(limits), name)
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		t.Errorf("no %q in %q", name, limits)
		return "", ""
	}
	return fields[0], fields[1]
}

func setupRlimits(ctx context.Context, t T, e *Env) {
	o := berth.ExecOptions{Rlimits: map[string]uint64{"nofile": 37, "fsize": 40960, "core": 0, "cpu": 600, "as": 512 << 20}}
	r := e.Exec(ctx, t, []string{"cat", "/proc/self/limits"}, o)
	for name, want := range map[string]uint64{"Max open files": 37, "Max file size": 40960, "Max core file size": 0, "Max cpu time": 600, "Max address space": 512 << 20} {
		text := strconv.FormatUint(want, 10)
		if soft, hard := limit(t, r.Stdout, name); soft != text || hard != text {
			t.Errorf("%s is %s, %s; want %s", name, soft, hard, text)
		}
	}
	before := e.Exec(ctx, t, []string{"cat", "/proc/self/limits"}, berth.ExecOptions{})
	if soft, _ := limit(t, before.Stdout, "Max open files"); soft == "37" {
		t.Errorf("the next command has the limits too")
	}
	r = e.Exec(ctx, t, berth.Shell("while :; do :; done"), berth.ExecOptions{Timeout: long, Rlimits: map[string]uint64{"cpu": 1}})
	if r.TimedOut || r.Signal == 0 {
		t.Errorf("after a second of CPU time: code %d, signal %d, timed out %v", r.ExitCode, r.Signal, r.TimedOut)
	}
}

func setupHard(ctx context.Context, t T, e *Env) {
	name := e.file("ran")
	_, err := e.Sandbox.Exec(ctx, berth.Shell("echo x >"+name), berth.ExecOptions{Rlimits: map[string]uint64{"nofile": 1 << 62}})
	wantError(t, "a limit above the hard one", err, spec.ErrPermission, fs.ErrPermission)
	_, err = e.Sandbox.Exec(ctx, berth.Shell("echo x >"+name), berth.ExecOptions{Rlimits: map[string]uint64{"NOFILE": 1}})
	wantError(t, "a limit of no name", err, spec.ErrInvalid)
	_, err = e.Sandbox.Files().ReadFile(ctx, name)
	wantError(t, "what they would have written", err, spec.ErrFileNotFound)
}

func setupInvisible(ctx context.Context, t T, e *Env) {
	script := `echo "$0 $*"; pwd; cat /proc/$$/cmdline; echo
for f in /proc/$$/fd/*; do [ -e "$f" ] || [ -L "$f" ] && echo "${f##*/}"; done
read -r stat </proc/$$/stat; set -- ${stat##*) }; [ "$3" = $$ ] && [ "$4" = $$ ] && echo leader
while read -r line; do case $line in "Max file locks"*) ;; *) echo "$line" ;; esac; done </proc/$$/limits` // a place may tell commands apart by that one, which nothing enforces
	argv := []string{"/bin/sh", "-c", script, "a name", "", "two  words"}
	mask := fs.FileMode(0o022)
	plain := e.Exec(ctx, t, argv, berth.ExecOptions{})
	through := e.Exec(ctx, t, argv, berth.ExecOptions{Umask: &mask})
	wantText(t, "what it sees of itself", through.Stdout, string(plain.Stdout))
	wantText(t, "stderr", through.Stderr, string(plain.Stderr))
	env := map[string]string{"GODEBUG": "inittrace=1", "GOMEMLIMIT": "nonsense", "A": "1"}
	exact := e.Exec(ctx, t, []string{"env"}, berth.ExecOptions{CleanEnv: true, Env: env, Umask: &mask})
	lines := strings.Split(strings.TrimSuffix(string(exact.Stdout), "\n"), "\n")
	slices.Sort(lines)
	if !slices.Equal(lines, []string{"A=1", "GODEBUG=inittrace=1", "GOMEMLIMIT=nonsense"}) || len(exact.Stderr) > 0 {
		t.Errorf("the environment is %q, stderr %q", lines, exact.Stderr)
	}
	for _, name := range []string{"SigIgn", "SigBlk"} {
		if set := e.status(ctx, t, berth.ExecOptions{Umask: &mask}, name); len(set) != 1 || strings.Trim(set[0], "0") != "" {
			t.Errorf("%s is %v; want no signal", name, set)
		}
	}
}

func setupMissing(ctx context.Context, t T, e *Env) {
	mask := fs.FileMode(0o022)
	for _, program := range []string{"/nonexistent/program", "berth-no-such-program", "./no-such-program"} {
		start := time.Now()
		_, err := e.Sandbox.Exec(ctx, []string{program}, berth.ExecOptions{Umask: &mask, Rlimits: map[string]uint64{"core": 0}})
		wantError(t, program, err, spec.ErrStartFailed, fs.ErrNotExist)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: the answer took %v", program, took)
		}
	}
	garbage := e.file("garbage")
	e.write(ctx, t, garbage, []byte("\x01\x02 no program"), files.WriteOptions{Mode: 0o755})
	_, err := e.Sandbox.Exec(ctx, []string{"./" + garbage}, berth.ExecOptions{Umask: &mask})
	wantError(t, "a file that is no program", err, spec.ErrStartFailed)
}
