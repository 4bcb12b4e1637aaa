//go:build linux

package fake_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/fake"
)

// scripts are run by the fake's shell and by the machine's dash, in an empty directory
// each: what they print and how they end is to be the same.
var scripts = map[string]string{
	"words":          `set -- a "b c" 'd"e' f\ g; for x; do echo "<$x>"; done; echo $# "$*"`,
	"empty words":    `e=; set -- $e "$e" ''; echo $#; set -- "$@"; echo $#; f() { echo $#; }; f "$@" $e`,
	"splitting":      `IFS=:; x='a:b c:d'; set -- $x; echo $#; for i in "$@"; do echo "[$i]"; done`,
	"read":           `printf 'a b  c\nd\\\ne\n' >f; { read x y; echo "$x|$y"; read -r z; echo "$z"; read w || echo none; } <f`,
	"read ifs":       `echo 'a:b:c:' | { IFS=: read x y z; echo "$x|$y|$z"; }; echo '  lead' | { IFS= read -r l; echo "[$l]"; }`,
	"parameters":     `x=abc.tar.gz; echo "${x%.*} ${x%%.*} ${x#*.} ${x##*.} ${#x} ${y:-def} ${y-} ${x:+set} ${y:=now}$y"`,
	"unset is error": `echo "${nope:?is missing}"; echo not reached`,
	"nounset":        `set -u; echo "a${x-}b"; echo "$x"; echo not reached`,
	"arithmetic":     `i=5; echo $((i*2+1)) $((i%3)) $((i>4&&i<6)) $((1<<4)) $((-i)); i=$((i+=2)); echo $i`,
	"substitution":   `echo "$(echo a; echo b)" $(printf 'x  y\n\n'); x=$(false); echo $?; echo "$(printf 'n\n\n')|"`,
	"backquotes":     "echo `echo \\`echo deep\\``",
	"if":             `if false; then echo 1; elif true; then echo 2; else echo 3; fi; if false; then :; fi; echo $?`,
	"case":           `for x in abc b '*' ''; do case $x in a*c) echo one;; '*') echo star;; [b-d]) echo set;; '') echo empty;; *) echo rest;; esac; done`,
	"loops":          `i=0; while [ $i -lt 5 ]; do i=$((i+1)); [ $i = 2 ] && continue; [ $i = 4 ] && break; echo $i; done; until [ $i = 0 ]; do i=$((i-1)); done; echo $i`,
	"nested break":   `for a in 1 2; do for b in x y; do [ $b = y ] && continue 2; echo $a$b; done; echo never; done; while :; do while :; do break 2; done; done; echo out`,
	"functions":      `f() { local v=in; echo "$v $1 $#"; return 3; }; v=out; f x y; echo $? $v; g() { g2() { echo inner; }; }; g; g2`,
	"recursion":      `fact() { if [ $1 -le 1 ]; then echo 1; else echo $(( $1 * $(fact $(($1-1))) )); fi; }; fact 6`,
	"and or":         `true && echo a || echo b; false && echo c || echo d; ! true; echo $?; false || false; echo $?`,
	"errexit":        `set -e; false || echo kept; if false; then :; fi; ! true; (false; echo no) || echo sub; echo before; false; echo not reached`,
	"errexit f":      `set -e; f() { false; echo in; }; f || echo o; f; echo not reached`,
	"exit":           `(exit 3); echo $?; { echo x; exit 4; echo y; }; echo not reached`,
	"pipeline":       `printf '3\n1\n2\n' | sort | head -n 2; echo $?; false | true; echo $?; true | false; echo $?`,
	"pipe subshell":  `x=1; echo 2 | read x; echo $x; echo a | while read l; do echo "got $l"; exit 5; done; echo $?`,
	"redirections":   `echo one >f; echo two >>f; cat <f; { echo out; echo err >&2; } >o 2>&1; cat o; echo x 2>&1 >/dev/null; cat <nope; echo $?`,
	"fds":            `exec 3>f; echo a >&3; echo b >&3; exec 3>&-; cat f; exec 4<f; read x <&4; read y <&4; echo $x$y; echo z >&9; echo $?`,
	"heredoc":        "x=v\ncat <<E\na $x $(echo c) \\$x\nE\ncat <<'E'\na $x\nE\ncat <<-E\n\t\ttab $x\n\tE\n",
	"glob":           `touch b.txt a.txt .h c; echo *; echo *.txt; echo [ab]*; echo "*"; echo none*; set -f; echo *; mkdir d; set +f; touch d/x; echo */x`,
	"cd":             `mkdir -p a/b; cd a/b; basename "$PWD"; cd ..; basename "$(pwd)"; cd - >/dev/null; basename "$PWD"; cd nowhere; echo $?`,
	"env":            `X=1; export Y=2; Z=3 env | grep -E '^[XYZ]=' | sort; echo "[$Z]"; unset Y; env | grep -c '^Y='`,
	"export later":   `A=1 B=$A; echo $B; C=x sh -c 'echo $C'; D=1; export D; D=2; sh -c 'echo $D'`,
	"special":        `echo $0 | grep -c sh; sh -c 'echo $0 $1 $#' name one two; true; echo $?; set -- 1 2 3 4 5 6 7 8 9 10 11; echo ${10} $10; shift 9; echo $1`,
	"readonly":       `readonly r=1; echo $r; r=2; echo not reached`,
	"eval":           `x='echo $y'; y=3; eval $x; eval 'a=1; echo $a; false'; echo $?; eval`,
	"dot":            `echo 'v=sourced; return 4; echo no' >lib; . ./lib; echo $? $v`,
	"trap exit":      `trap 'echo bye $?' EXIT; (trap 'echo sub' EXIT; exit 1); echo in; exit 6`,
	"trap signal":    `trap 'echo got' USR1; kill -USR1 $$; echo after; trap - USR1; trap '' TERM; kill $$; echo alive; kill -USR1 $$; echo not reached`,
	"trap in sub":    `trap 'echo parent' USR1; (kill -USR1 $$; sleep 0.2); echo done`,
	"wait":           `(exit 3) & wait $!; echo $?; sleep 0.1 & a=$!; (sleep 0.2; exit 7) & b=$!; wait $a; echo $?; wait $b; echo $?; wait 99999; echo $?; wait; echo $?`,
	"wait signal":    `trap 'echo trapped' TERM; (sleep 0.2; kill $$) & sleep 5 & wait $!; echo $?; kill %2 2>/dev/null || kill $!`,
	"killed child":   `sh -c 'kill -9 $$' 2>/dev/null; echo $?; sh -c 'kill -TERM $$' 2>/dev/null; echo $?`,
	"not found":      `nosuchprogram; echo $?; ./nosuch; echo $?; mkdir d; ./d; echo $?; touch plain; ./plain; echo $?`,
	"exec":           `exec echo replaced; echo not reached`,
	"command":        `command -v cd; command -v nosuch; echo $?; f() { :; }; command -v f; command echo x`,
	"echo":           `echo 'a\tb\\n\0101\q'; echo -n 'x\n'; echo -e y; echo 'stop\chere' never; echo after; env echo 'p\tq'`,
	"first lines":    `seq 5 | head -1; seq 5 | head -2; seq 5 | tail -1; seq 20 | head | wc -l`,
	"ls":             `ls nope 2>/dev/null; echo $?; touch f; ls f nope 2>/dev/null; echo $?; ls; echo $?`,
	"printf":         `printf '%s-%d|' a 1 b 2; echo; printf '%5s|%-5s|%05d|%x\n' r l 42 255; printf 'a\tb\n'; printf '%b' 'c\n'; printf '%%\n'`,
	"test":           `touch f; mkdir d; ln -s f l; for t in "-f f" "-d d" "-e nope" "-L l" "-s f" "1 -lt 2" "a = a" "a != a" "-z ''" "! -f f" "-f f -a -d d" "-f d -o -d d"; do eval "[ $t ]" && echo "$t"; done; [ a b ]; echo $?`,
	"umask":          `umask 027; umask; touch f; mkdir d; stat -c %a f; (umask 0; umask); umask`,
	"getopts":        `set -- -a -b val -cfoo rest; while getopts ab:c: o; do echo "$o ${OPTARG-none}"; done; shift $((OPTIND-1)); echo $1`,
	"sigpipe":        `yes | head -n 1; { while :; do echo y; done; } | head -n 1; echo $?`,
	"background":     `sleep 0.1 && echo late & echo early; wait; echo done`,
	"stdin of bg":    `echo x | { cat & wait; echo end; }`,
	"comments":       "echo a # b\n# c\necho d#e",
	"continuation":   "echo a \\\n b; x=1 \\\n; echo $x",
	"quotes":         `echo "a'b" 'c"d' "e\"f" "g\$h" 'i\j' "k\l"`,
	"tilde":          `HOME=/h; echo ~ ~/x "~" a~`,
	"not utf8":       "printf '\xff\xfe' | wc -c; x='\xe9'; echo ${x} | wc -c; case \xff in \xff) echo same;; esac",
	"syntax":         "echo first\nif true; then",
	"bash only":      `[[ a = a ]]; echo $?`,
	"files":          `mkdir -p p/q; echo 1 >p/a; cp p/a p/q/b; mv p/a p/c; ls p; cp -r p r; find r | sort; rm -r p; ls; rm nope; echo $?; rm -f nope; echo $?`,
	"text":           `printf 'b 2\na 1\nb 2\n' >f; sort f | uniq -c | tr -s ' '; wc -l <f; cut -d' ' -f2 f; tail -n 1 f; grep -n a f; grep -c b f; tr a-z A-Z <f; seq 2 2 6; head -c 3 f; echo; tee g <f | wc -l; grep -q zzz f; echo $?`,
	"xargs":          `printf 'a b\nc\n' | xargs -n 2 echo -; printf '' | xargs -r echo no; env -i A=1 env; timeout 0.1 sleep 5; echo $?; timeout 5 true; echo $?`,
	"links":          `echo x >f; ln -s f l; readlink l; cat l; ln -s loop loop; cat loop; echo $?; ln -s "$PWD" here; cd here; basename "$(pwd -P)" >/dev/null; test -L l && echo link; rm l; test -f f && echo kept`,
	"fifo":           `mkfifo p; (sleep 0.05; echo through >p) & read x <p; echo $x; wait`,
	"ulimit":         `ulimit -n 64; ulimit -n; (ulimit -n 32; ulimit -n); ulimit -n`,
	"proc":           `cd /proc/self >/dev/null && echo in; read -r line </proc/$$/stat && [ "${line%% *}" = $$ ] && echo mine; test -d /proc/1 && echo init`,
	"process group":  `setsid sh -c 'trap "echo got; exit 3" TERM; kill 0; sleep 1' & wait $!; echo $?`,
}

// The shell of the places is dash, as far as scripts can tell.
func TestShellIsLikeDash(t *testing.T) {
	dash, err := exec.LookPath("dash")
	switch {
	case err != nil && runtime.GOOS == "linux":
		t.Fatal("there is no dash to compare with: it is in the Debian package of that name")
	case err != nil:
		t.Skip("dash is not to be had on this system")
	}
	d := fake.New(fake.Options{})
	sb, err := berth.Provision(t.Context(), d, berth.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Destroy(t.Context()) })
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, wantCode := reference(t, dash, script)
			dir := "/tmp/" + strings.ReplaceAll(name, " ", "-")
			argv := []string{"/bin/sh", "-c", `mkdir "$1" && cd "$1" && exec setsid sh -c "$2"`, "sh", dir, script}
			r, err := sb.Exec(t.Context(), argv, berth.ExecOptions{Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			if string(r.Stdout) != want || r.ExitCode != wantCode {
				t.Errorf("%s\nprints %q, %d (stderr %q)\nwant   %q, %d", script, r.Stdout, r.ExitCode, r.Stderr, want, wantCode)
			}
		})
	}
}

// reference is what dash makes of a script.
func reference(t *testing.T, dash, script string) (string, int) {
	t.Helper()
	bin := t.TempDir()
	if err := os.Symlink(dash, filepath.Join(bin, "sh")); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "setsid", "sh", "-c", script)
	c.Dir = t.TempDir()
	c.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=/root", "LANG=C.UTF-8"}
	var out bytes.Buffer
	c.Stdout = &out
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	code := c.ProcessState.ExitCode()
	if code < 0 {
		code = 128 + signal(c)
	}
	return out.String(), code
}
