package ssh

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/spec"
)

// The scripts below are constant: whatever varies is an argument. They are for any
// POSIX shell, and hold no single quote and no backslash, so that the line that
// carries them means the same to the login shells that differ in those.

// probeScript says what the far side is, after probeMarker on a line of its own.
const (
	probeScript = `echo berth-probe 1
uname -s -m
printf %s "$HOME"`
	probeMarker = "berth-probe 1\n"
)

// The exit statuses of the scripts, from a range that shells and the guest leave
// alone.
const (
	exitNoGuest = 86 // the guest binary is not there, or not whole
	exitNoDir   = 87 // the state directory is not there
	exitForeign = 88 // the state directory belongs to somebody else
	exitCut     = 89 // the upload is not what was sent
	exitNoExec  = 90 // the uploaded file cannot be run
	exitNoWrite = 91 // the directory or the file cannot be written
)

// placeScript runs the guest at $1, of $2 bytes, as "place $4" on the state
// directory $3. Unless $5 is "make", a state directory that is missing ends it:
// then there is no place in it.
const placeScript = `[ "$5" = make ] || [ -d "$3" ] || exit 87
[ -x "$1" ] && [ "$(wc -c <"$1")" -eq "$2" ] || exit 86
exec "$1" place "$4" --dir "$3"`

// uploadScript makes the file $2 in the state directory $1 from its input, of $3
// bytes with the SHA-256 $4, by way of $5. What is there afterwards is whole.
const uploadScript = `umask 077
fin() { rm -f "$t"; exit "$1"; }
t=$5
d=${2%/*}
mkdir -p "$d" || exit 91
[ -O "$1" ] && [ -O "$d" ] || exit 88
chmod 0700 "$1" "$d" || exit 91
trap "fin 91" HUP INT TERM
cat >"$t" || fin 91
[ "$(wc -c <"$t")" -eq "$3" ] || fin 89
if command -v sha256sum >/dev/null 2>&1
then
 s=$(sha256sum <"$t")
 [ "${s%% *}" = "$4" ] || fin 89
fi
chmod 0700 "$t" || fin 91
"$t" version </dev/null >/dev/null || fin 90
mv -f "$t" "$2" || fin 91`

// shell returns the line that makes any login shell run script with arguments.
func shell(script string, args ...string) string {
	var b strings.Builder
	b.WriteString("exec /bin/sh -c ")
	b.WriteString(quote(script))
	b.WriteString(" berth")
	for _, a := range args {
		b.WriteByte(' ')
		b.WriteString(quote(a))
	}
	return b.String()
}

// quote makes s one word that means s in POSIX shells and in fish: quotes and
// backslashes stand between double quotes, all else between single ones.
func quote(s string) string {
	return "'" + strings.NewReplacer(`'`, `'"'"'`, `\`, `'"\\"'`).Replace(s) + "'"
}

// far is what is known of the far side.
type far struct {
	os, arch string // GOOS and GOARCH
	dir      string // the state directory
	uname    string // as it said, for messages
}

// guestsDirName is the directory of guest binaries in the state directory. No place
// has such an id.
const guestsDirName = "guest"

// guestPath is where a guest of that hash lies.
func (f far) guestPath(hash string) string {
	return path.Join(f.dir, guestsDirName, "berth-guest-"+hash[:16])
}

const maxProbeBytes = 8 << 10

// probe asks the far side what it is.
func (p *pool) probe(ctx context.Context, dir string) (far, error) {
	out, s, err := p.output(ctx, shell(probeScript), maxProbeBytes)
	if err != nil {
		return far{}, err
	}
	text, ok := strings.CutPrefix(string(out), probeMarker)
	if !ok {
		return far{}, strayOutput(out, s)
	}
	uname, home, _ := strings.Cut(text, "\n")
	f := far{uname: uname, dir: dir}
	if f.os, f.arch, err = platform(uname); err != nil {
		return far{}, err
	}
	if f.dir == "" {
		if !path.IsAbs(home) || spec.ValidatePath(home) != nil {
			return far{}, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the user has no home directory on the host: HOME is %q", clip(home)), Hint: "name a remote directory"}
		}
		f.dir = path.Join(home, ".local/state/berth")
	}
	return f, nil
}

// output runs a command to its end and returns its stdout.
func (p *pool) output(ctx context.Context, command string, most int64) ([]byte, *stream, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	defer cancel()
	s, err := p.exec(ctx, command)
	if err != nil {
		return nil, nil, timedOut(ctx, err)
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	_ = s.CloseWrite()
	out, err := io.ReadAll(io.LimitReader(s, most))
	if ctx.Err() != nil {
		return nil, nil, timedOut(ctx, ctx.Err())
	}
	if err != nil {
		return nil, nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the connection to the host broke: %w", err)}
	}
	if _, _, err := s.status(ctx); err != nil {
		return nil, nil, timedOut(ctx, err)
	}
	return out, s, nil
}

// answerTimeout bounds what the far side may take for one answer: the longest is
// the removal of a place, which waits for its commands.
const answerTimeout = 2 * time.Minute

var errNoAnswer = errors.New("the host runs the command and does not answer")

// timedOut turns the end of our own limit into an error that says so; the end of
// the caller's context stays what it is.
func timedOut(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause == errNoAnswer {
		return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("%w within %v", cause, answerTimeout), Hint: "see what the login shell's start-up files wait for: ssh HOST true"}
	}
	return err
}

// strayOutput says that something else than our command has spoken.
func strayOutput(out []byte, s *stream) error {
	text := strings.TrimSpace(string(out))
	hint := "start-up files of the login shell must print nothing when there is no terminal: ssh HOST true must be silent"
	if text == "" {
		text = s.complaint()
		hint = "check that the user has a POSIX login shell and may run commands: ssh HOST uname"
	}
	if text == "" {
		text = "nothing"
	}
	return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the host answers a command with something else: %s", strconv.QuoteToASCII(clip(text))), Hint: hint}
}

// platform reads what uname -s -m has said.
func platform(uname string) (goos, goarch string, err error) {
	switch uname {
	case "Linux x86_64":
		return "linux", "amd64", nil
	case "Linux aarch64", "Linux arm64":
		return "linux", "arm64", nil
	}
	return "", "", &spec.Error{Code: spec.CodeUnsupported, Err: fmt.Errorf("the host is %q", clip(uname)), Hint: "a guest runs on Linux x86_64 and aarch64"}
}

// upload puts the guest binary where f expects it.
func (p *pool) upload(ctx context.Context, f far, bin guest.Bin, progress func(spec.Progress)) error {
	file, err := os.Open(bin.Path)
	if err != nil {
		return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("guest binary: %w", err), Hint: "somebody has removed it from this machine since it was found: start again"}
	}
	defer file.Close()
	target := f.guestPath(bin.Hash)
	var nonce [8]byte
	_, _ = rand.Read(nonce[:]) // never fails
	temp := fmt.Sprintf("%s.%x.tmp", target, nonce)
	s, err := p.exec(ctx, shell(uploadScript, f.dir, target, strconv.FormatInt(bin.Size, 10), bin.Hash, temp))
	if err != nil {
		return err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	src := &progressReader{r: io.LimitReader(file, bin.Size), total: bin.Size, report: progress}
	defer src.stop()
	copyErr := within(ctx, func() error { // the script may end early, and then says why
		_, err := io.Copy(s, src)
		_ = s.CloseWrite()
		return err
	})
	stray, _ := io.ReadAll(io.LimitReader(s, maxStrayBytes))
	code, known, err := s.status(ctx)
	if err != nil {
		return err
	}
	if !known {
		return &spec.Error{Code: spec.CodeUnavailable, Err: errors.Join(errors.New("the connection broke during the upload of the guest"), copyErr)}
	}
	return f.uploaded(code, string(stray)+s.complaint())
}

const maxStrayBytes = 512

// uploaded turns the exit status of uploadScript into an error.
func (f far) uploaded(code int, said string) error {
	dir := path.Join(f.dir, guestsDirName)
	fail := func(code spec.Code, text, hint string) error {
		if said != "" {
			text += ": " + strconv.QuoteToASCII(clip(said))
		}
		return &spec.Error{Code: code, Err: errors.New(text), Hint: hint}
	}
	switch code {
	case 0:
		return nil
	case exitForeign:
		return fail(spec.CodePermission, fmt.Sprintf("the remote directory %q belongs to another user", f.dir), "name another remote directory")
	case exitNoWrite:
		return fail(spec.CodeNotWritable, fmt.Sprintf("the host cannot write the guest to %q", dir), "check the permissions and the free space there, or name another remote directory")
	case exitCut:
		return fail(spec.CodeUnavailable, "the upload of the guest arrived incomplete", "try again")
	case exitNoExec:
		return fail(spec.CodeUnsupported, fmt.Sprintf("the host cannot run files in %q", dir), "its file system may be mounted noexec: name a remote directory on another one")
	}
	return fail(spec.CodeUnavailable, fmt.Sprintf("the upload of the guest ended with exit status %d", code), "check that the user has a POSIX login shell: ssh HOST uname")
}

// progressReader reports what passes, until it is stopped.
type progressReader struct {
	r     io.Reader
	total int64

	mu     sync.Mutex
	done   int64
	report func(spec.Progress) // nil: nobody listens
}

func (r *progressReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += int64(n)
	if r.report != nil {
		r.report(spec.Progress{Step: "guest: upload", Message: "uploading the guest", Done: r.done, Total: r.total})
	}
	return n, err
}

// stop returns when nothing is being reported, and nothing will be.
func (r *progressReader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report = nil
}

// clip keeps foreign text in a message short.
func clip(s string) string {
	const most = 256
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
