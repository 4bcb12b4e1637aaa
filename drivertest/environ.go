package drivertest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// environCases are about the environment of a command.
func environCases() []Case {
	return []Case{
		{Name: "SpecEnvReachesCommands", Rule: "The sandbox's env reaches every command; values survive byte for byte.", Need: needCoreutils, Run: environSpec},
		{Name: "CommandEnvAdds", Rule: "A command's env is added to the sandbox's and wins over it.", Need: needCoreutils, Run: environCommand},
		{Name: "CommandEnvIsByteExact", Rule: "Env values arrive byte for byte, whatever they hold but NUL.", Need: needShell, Run: environBytes},
		{Name: "CleanEnvIsExact", Rule: "CleanEnv is exactly what is given; the program is still found on the place's PATH.", Need: needCoreutils, Run: environClean},
		{Name: "EnvPathsComeFirst", Rule: "EnvPaths stand in front of the list of directories that the command would have otherwise, and programs are looked up there.", Need: needShell, Run: environPaths},
		{Name: "CmdEnvLaterWins", Rule: "Of two entries with one name the later wins; an entry without = is refused.", Need: needCoreutils, Run: environLater},
		{Name: "ShellStartupIsOff", Rule: "BASH_ENV and ENV are removed from the environment unless the command sets them itself.", Need: needCoreutils, Run: environStartup},
		{Name: "ShellIsNoLoginShell", Rule: "Shell runs /bin/sh -c, not as a login shell.", Need: needShell, Run: environLogin},
		{Name: "LargeArgumentsWork", Rule: "What the kernel takes is taken, what it cannot is too_large before anything runs.", Need: needShell, Run: environLarge},
		{Name: "SpecEnvIsBounded", Rule: "A Spec's env that no program could be started with is too_large, by name, before anything is created; less of it reaches commands.", Need: all(needKeyed, needShell), Run: environPlace},
		{Name: "SpecEnvRejectsInvalidName", Rule: "A bad env name is refused before anything is created.", Need: all(needKeyed, needCoreutils), Run: environInvalid},
		{Name: "SpecEnvIsBoundAtProvision", Rule: "A Spec's env is fixed at create: who adopts the place finds the first one's.", Need: all(needKeyed, needCoreutils), Run: environBound},
	}
}

// hostile are values that some layer or other expands, splits or trims.
var hostile = map[string]string{
	"C_SPACE":   "two  words ",
	"C_DOLLAR":  "$(X)/$lit ${Y} $$",
	"C_QUOTES":  `"double" 'single' \back`,
	"C_EQUALS":  "a=b=c",
	"C_NEWLINE": "line one\nline two\n",
	"C_EMPTY":   "",
	"C_BRACES":  "{{.}} %s %(x)s `id`",
	"C_COMMENT": "# not a comment",
	"C_UTF8":    "ü€",
}

// wantEnv compares variables in the output of env.
func wantEnv(t T, output []byte, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if !strings.Contains("\n"+string(output), "\n"+name+"="+value+"\n") {
			t.Errorf("%s is not %q in:\n%.2000q", name, value, output)
		}
	}
}

func environSpec(ctx context.Context, t T, e *Env) {
	s := e.Spec()
	s.Env = hostile
	sb := e.Provision(ctx, t, s)
	r := e.ExecIn(ctx, t, sb, []string{"env"}, berth.ExecOptions{})
	wantEnv(t, r.Stdout, hostile)
}

func environCommand(ctx context.Context, t T, e *Env) {
	s := e.Spec()
	s.Env = map[string]string{"C_ONE": "spec", "C_TWO": "spec"}
	sb := e.Provision(ctx, t, s)
	r := e.ExecIn(ctx, t, sb, []string{"env"}, berth.ExecOptions{Env: map[string]string{"C_TWO": "command", "C_THREE": "command"}})
	wantEnv(t, r.Stdout, map[string]string{"C_ONE": "spec", "C_TWO": "command", "C_THREE": "command"})
	r = e.ExecIn(ctx, t, sb, []string{"env"}, berth.ExecOptions{})
	wantEnv(t, r.Stdout, map[string]string{"C_TWO": "spec"})
	if strings.Contains(string(r.Stdout), "C_THREE=") {
		t.Errorf("one command's env reached the next")
	}
}

func environBytes(ctx context.Context, t T, e *Env) {
	r := e.Exec(ctx, t, []string{"env"}, berth.ExecOptions{Env: hostile})
	wantEnv(t, r.Stdout, hostile)
	value := "\xff\xfe \x01\x7f \xc3"
	r = e.Exec(ctx, t, berth.Shell(`echo "$C_BYTES"`), berth.ExecOptions{Env: map[string]string{"C_BYTES": value}})
	wantText(t, "a value that is not UTF-8", r.Stdout, value+"\n")
}

func environClean(ctx context.Context, t T, e *Env) {
	r := e.Exec(ctx, t, []string{"env"}, berth.ExecOptions{CleanEnv: true, Env: map[string]string{"B": "2", "A": "1 "}})
	lines := strings.Split(strings.TrimSuffix(string(r.Stdout), "\n"), "\n")
	slices.Sort(lines)
	if !slices.Equal(lines, []string{"A=1 ", "B=2"}) {
		t.Errorf("the environment is %q; want A and B only", lines)
	}
	r = e.Exec(ctx, t, []string{"env"}, berth.ExecOptions{CleanEnv: true})
	wantText(t, "an empty environment", r.Stdout, "")
}

func environPaths(ctx context.Context, t T, e *Env) {
	s := e.Spec()
	s.Env = map[string]string{"C_LIST": "/spec", "C_EMPTY": ""}
	sb := e.Provision(ctx, t, s)
	paths := map[string][]string{"C_LIST": {"/one", "/two words"}, "C_EMPTY": {"/one"}, "C_NONE": {"/one"}, "C_OWN": {"/one"}}
	o := berth.ExecOptions{EnvPaths: paths, Env: map[string]string{"C_OWN": "/own"}}
	r := e.ExecIn(ctx, t, sb, []string{"/bin/sh", "-c", `echo "$C_LIST,$C_EMPTY,$C_NONE,$C_OWN"`}, o)
	wantText(t, "the lists", r.Stdout, "/one:/two words:/spec,/one,/one,/one:/own\n")
	o.CleanEnv = true
	r = e.ExecIn(ctx, t, sb, []string{"/bin/sh", "-c", `echo "$C_LIST,$C_OWN"`}, o)
	wantText(t, "the lists in a clean environment", r.Stdout, "/one:/two words,/one:/own\n")

	dir, err := e.Sandbox.Files().Resolve(ctx, ".")
	if err != nil {
		t.Fatalf("resolve: %v", err)
	}
	e.write(ctx, t, "c-program", []byte("#!/bin/sh\necho found\n"), files.WriteOptions{Mode: 0o755})
	r = e.Exec(ctx, t, []string{"c-program"}, berth.ExecOptions{EnvPaths: map[string][]string{"PATH": {dir}}})
	wantText(t, "a program in front of PATH", r.Stdout, "found\n")
	for _, dirs := range [][]string{{"relative"}, {"/a:/b"}, {""}, {"/nul\x00"}} {
		_, err := e.Sandbox.Exec(ctx, []string{"true"}, berth.ExecOptions{EnvPaths: map[string][]string{"PATH": dirs}})
		wantError(t, fmt.Sprintf("%q", dirs), err, spec.ErrInvalid)
	}
	_, err = e.Sandbox.Exec(ctx, []string{"true"}, berth.ExecOptions{EnvPaths: map[string][]string{"A=B": {"/x"}}})
	wantError(t, "a name with =", err, spec.ErrInvalid)
}

func environLater(ctx context.Context, t T, e *Env) {
	c := e.Sandbox.CommandContext(ctx, "env")
	c.CleanEnv, c.Env = true, []string{"A=1", "B=", "A=2=3"}
	out, err := c.Output()
	if err != nil {
		t.Fatalf("env: %v", err)
	}
	wantEnv(t, out, map[string]string{"A": "2=3", "B": ""})
	if n := strings.Count(string(out), "A="); n != 1 {
		t.Errorf("A is there %d times", n)
	}
	c = e.Sandbox.CommandContext(ctx, "env")
	c.Env = []string{"NOVALUE"}
	wantError(t, "an entry without =", c.Run(), spec.ErrInvalid)
}

func environStartup(ctx context.Context, t T, e *Env) {
	s := e.Spec()
	s.Env = map[string]string{"BASH_ENV": "/from/spec", "ENV": "/from/spec", "C_OTHER": "stays"}
	sb := e.Provision(ctx, t, s)
	r := e.ExecIn(ctx, t, sb, []string{"env"}, berth.ExecOptions{})
	wantEnv(t, r.Stdout, map[string]string{"C_OTHER": "stays"})
	if strings.Contains(string(r.Stdout), "/from/spec") {
		t.Errorf("a start-up file reached the command: %.500q", r.Stdout)
	}
	own := map[string]string{"BASH_ENV": "/from/command", "ENV": "/from/command"}
	r = e.ExecIn(ctx, t, sb, []string{"env"}, berth.ExecOptions{Env: own})
	wantEnv(t, r.Stdout, own)
}

func environLogin(ctx context.Context, t T, e *Env) {
	r := e.Sh(ctx, t, `echo "$0 $-"`)
	name, flags, _ := strings.Cut(strings.TrimSpace(string(r.Stdout)), " ")
	if strings.HasPrefix(name, "-") || strings.ContainsAny(flags, "il") {
		t.Errorf("the shell calls itself %q with flags %q; want neither a login nor an interactive one", name, flags)
	}
}

func environLarge(ctx context.Context, t T, e *Env) {
	const works, tooLarge = 100_000, 200_000
	big := strings.Repeat("x", works)
	r := e.Exec(ctx, t, berth.Shell(`echo ${#C_BIG}`), berth.ExecOptions{Env: map[string]string{"C_BIG": big}})
	wantText(t, "length of a large value", r.Stdout, fmt.Sprintln(works))
	r = e.Exec(ctx, t, []string{"/bin/sh", "-c", `echo ${#1} ${#2}`, "sh", big, big}, berth.ExecOptions{})
	wantText(t, "length of large arguments", r.Stdout, fmt.Sprintln(works, works))
	huge := strings.Repeat("x", tooLarge)
	_, err := e.Sandbox.Exec(ctx, []string{"echo", huge}, berth.ExecOptions{})
	wantError(t, "a huge argument", err, spec.ErrTooLarge)
	_, err = e.Sandbox.Exec(ctx, []string{"true"}, berth.ExecOptions{Env: map[string]string{"C_BIG": huge}})
	wantError(t, "a huge value", err, spec.ErrTooLarge)
}

func environInvalid(ctx context.Context, t T, e *Env) {
	bad := e.Keyed()
	bad.Env = map[string]string{"A=B": "c"}
	if sb, err := berth.Provision(ctx, e.Driver, bad); err == nil {
		e.Cleanup(sb.Close)
		t.Fatalf("an env name with = was taken")
	} else {
		wantError(t, "provision", err, spec.ErrInvalid)
	}
	good := bad
	good.Env = map[string]string{"C_GOOD": "mine"}
	sb := e.Provision(ctx, t, good)
	r := e.ExecIn(ctx, t, sb, []string{"env"}, berth.ExecOptions{})
	wantEnv(t, r.Stdout, good.Env)
}

func environBound(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	s.Env = map[string]string{"C_BOUND": "first"}
	first := e.Provision(ctx, t, s)
	s.Env = map[string]string{"C_BOUND": "second"}
	second := e.ProvisionWith(ctx, t, e.Open(t), s, berth.ProvisionOptions{})
	if first.ID() != second.ID() {
		t.Errorf("ids %q and %q; want one place", first.ID(), second.ID())
	}
	r := e.ExecIn(ctx, t, second, []string{"env"}, berth.ExecOptions{})
	wantEnv(t, r.Stdout, map[string]string{"C_BOUND": "first"})
}
