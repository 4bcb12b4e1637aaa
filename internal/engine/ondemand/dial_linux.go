package ondemand

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

const (
	// prefix begins the names of sockets.
	prefix = "s-"
	// longestDir leaves room for a socket's name in a socket's address, which has 107 bytes.
	longestDir = 107 - len("/"+prefix+"12345678")
	// pollEvery is how often a start, or somebody else's, is looked at.
	pollEvery = 10 * time.Millisecond
	// dialLimit bounds one connection.
	dialLimit = 10 * time.Second
)

// Dial connects to the service, starting it if need be. The error is fs.ErrNotExist where
// its program is not on this machine, driver.ErrOnDemand in a *spec.Error where it is not to
// be started, the context's, or a *spec.Error that says what the service said. A start that
// is given up goes on by itself: the next Dial finds it.
func (s *Service) Dial(ctx context.Context) (net.Conn, error) {
	program, err := exec.LookPath(s.Command[0])
	if err != nil {
		return nil, fs.ErrNotExist
	}
	err = s.secure()
	if errors.Is(err, fs.ErrNotExist) && s.LookOnly {
		return nil, s.notStarted()
	}
	if err != nil {
		return nil, err
	}
	conn, err := s.connect(ctx, false)
	switch {
	case conn != nil || err != nil:
		return conn, err
	case s.LookOnly:
		return nil, s.notStarted()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, StartLimit, s.failed(fmt.Sprintf("it does not answer within %v", StartLimit)))
	defer cancel()
	if s.Progress != nil {
		late := time.AfterFunc(quietStart, func() {
			s.Progress(spec.Progress{Step: "engine", Message: "starting " + s.Title + "'s service"})
		})
		defer late.Stop()
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if conn, err := s.connect(ctx, true); conn != nil || err != nil {
		return conn, err
	}
	return s.start(ctx, program)
}

// secure makes sure that the directory is there and nobody else's. fs.ErrNotExist: it is not,
// and none is to be made.
func (s *Service) secure() error {
	refuse := func(err error) error {
		return &spec.Error{Code: spec.CodePermission, Err: fmt.Errorf("directory for the socket of %s's service, %s: %w", s.Title, s.Dir, err), Hint: "remove it, or let another one be used (XDG_RUNTIME_DIR, BERTH_STATE_DIR)"}
	}
	if !filepath.IsAbs(s.Dir) || len(s.Dir) > longestDir {
		return refuse(fmt.Errorf("want an absolute path of at most %d bytes", longestDir))
	}
	info, err := os.Lstat(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		if s.LookOnly {
			return fs.ErrNotExist
		}
		if err := os.MkdirAll(s.Dir, 0o700); err != nil {
			return refuse(err)
		}
		info, err = os.Lstat(s.Dir)
	}
	if err != nil {
		return refuse(err)
	}
	switch st, ok := info.Sys().(*syscall.Stat_t); {
	case !info.IsDir():
		return refuse(errors.New("it is no directory"))
	case !ok || int(st.Uid) != os.Geteuid():
		return refuse(errors.New("it belongs to another user"))
	case info.Mode().Perm()&0o077 != 0:
		return refuse(errors.New("others can get at it"))
	}
	return nil
}

// connect returns a connection to a service that is there, or none. clear: a socket that
// nobody listens on is removed. Only who holds the lock knows that nobody is going to.
func (s *Service) connect(ctx context.Context, clear bool) (net.Conn, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: dialLimit}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		path := filepath.Join(s.Dir, e.Name())
		conn, err := d.DialContext(ctx, "unix", path)
		switch {
		case err == nil:
			return conn, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case clear && errors.Is(err, syscall.ECONNREFUSED):
			_ = os.Remove(path) // what stays is passed over the next time too
		}
	}
	return nil, nil
}

// lock takes the directory's lock, which ends with its holder.
func (s *Service) lock(ctx context.Context) (unlock func(), _ error) {
	dir, err := os.OpenFile(s.Dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { dir.Close() }, nil
		}
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
			err = pause(ctx)
		}
		if err != nil {
			dir.Close()
			return nil, err
		}
	}
}

// start runs the service until it answers.
func (s *Service) start(ctx context.Context, program string) (net.Conn, error) {
	// Not a pipe, which would end with this program and take the service with it.
	words, err := os.CreateTemp(s.Dir, "words-")
	if err != nil {
		return nil, err
	}
	defer words.Close()
	if err := os.Remove(words.Name()); err != nil {
		return nil, err
	}
	var name [4]byte
	rand.Read(name[:])
	path := filepath.Join(s.Dir, prefix+hex.EncodeToString(name[:]))
	cmd := exec.Command(program, append(s.Command[1:len(s.Command):len(s.Command)], "unix://"+path)...)
	cmd.Dir, cmd.Stderr = "/", words
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, s.failed(err.Error())
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // it ends with the service, or this program
	for d := (net.Dialer{Timeout: dialLimit}); ; {
		conn, err := d.DialContext(ctx, "unix", path)
		if err == nil {
			return conn, nil
		}
		select {
		case err := <-ended:
			return nil, s.failed(last(words, err))
		default:
		}
		if err := pause(ctx); err != nil {
			if spec.CodeOf(err) == spec.CodeUnavailable { // it is too late, not the caller gone
				_ = cmd.Process.Signal(syscall.SIGTERM)
			}
			return nil, err
		}
	}
}

// pause waits for a moment or the end of ctx, whose cause it returns.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pollEvery):
		return nil
	}
}

// maxWords is how much is read of what a service says.
const maxWords = 2 << 10

// last returns the last line of what a service has said, or how it ended.
func last(words *os.File, end error) string {
	var said string
	if info, err := words.Stat(); err == nil {
		tail := make([]byte, min(info.Size(), maxWords))
		n, _ := words.ReadAt(tail, info.Size()-int64(len(tail)))
		said = strings.TrimSpace(string(tail[:n]))
	}
	said = strings.TrimSpace(said[strings.LastIndexByte(said, '\n')+1:])
	switch {
	case said != "":
		return fmt.Sprintf("it says %q", said)
	case end == nil:
		return "it ends at once"
	}
	return end.Error()
}

func (s *Service) failed(why string) error {
	return &spec.Error{
		Code: spec.CodeUnavailable, Err: fmt.Errorf("%s's service, started on demand: %s", s.Title, why),
		Hint: "see what is wrong by hand: " + strings.Join(s.Command, " ") + " unix:///tmp/try.sock",
	}
}

func (s *Service) notStarted() error {
	return &spec.Error{
		Code: spec.CodeUnavailable, Err: fmt.Errorf("%s: %w", s.Title, driver.ErrOnDemand),
		Hint: "whoever uses this backend starts it",
	}
}
