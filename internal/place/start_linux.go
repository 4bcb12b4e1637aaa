package place

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/idmap"
	"github.com/berth-dev/berth/internal/place/begin"
	"github.com/berth-dev/berth/internal/place/made"
	"github.com/berth-dev/berth/internal/procstat"
	"github.com/berth-dev/berth/spec"
)

const (
	// infoTimeout bounds the wait for a wrapper to say which process it made.
	infoTimeout  = 10 * time.Second
	maxInfoBytes = 4 << 10
	backlog      = 128
	// maxTailBytes is how much of a guest's log is quoted.
	maxTailBytes = 1 << 10
	// deathTimeout is how long a guest that closed its connection without a
	// word is given to end, so that its log can be quoted.
	deathTimeout = 2 * time.Second
)

// start runs the guest of rec, whose directory exists and whose lock is held, and
// connects to it. The record is written before and after.
func (r *Root) start(ctx context.Context, s *spec.Spec, rec *Record, o ProvisionOptions) (net.Conn, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	rec.PID, rec.StartTicks, rec.WrapperPID, rec.WrapperTicks = 0, 0, 0, 0
	rec.BootID, rec.PIDNamespace, rec.Epoch, rec.Notice = boot, pidNamespace(), o.Epoch, o.Notice
	told := r.appeared(rec, s)
	dir := r.dirOf(rec.ID)
	if err := r.save(rec); err != nil {
		return nil, err
	}
	if err := makeWorkdir(rec); err != nil {
		return nil, err
	}
	if err := checkRoot(s.WorkspaceRoot); err != nil {
		return nil, err
	}
	state := filepath.Join(dir, stateName)
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, hostError(err)
	}
	l := Launch{Spec: s, Dir: dir, State: state}
	if err := r.limit(rec, &l); err != nil {
		return nil, err
	}
	conn, err := r.launch(ctx, l, rec, o)
	if l.group.Hold != nil {
		l.group.Hold.Close() // by now what was started has it, or nobody needs it
	}
	if err != nil {
		_ = r.unlimit(rec.ID, rec) // what cannot be removed is found again with the place
		return nil, err
	}
	told()
	return conn, nil
}

// launch starts the guest of rec, for which everything has been made, and connects to it.
func (r *Root) launch(ctx context.Context, l Launch, rec *Record, o ProvisionOptions) (net.Conn, error) {
	plan, err := r.plan(ctx, l, rec, o)
	if err != nil {
		return nil, err
	}
	listener, conn, err := listen(ctx, l.Dir)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	child, err := r.spawn(plan, l.Dir, l.Spec.Env, listener)
	for attached := false; errors.Is(err, errAttached) && !attached || errors.Is(err, idmap.ErrUnable) && l.NoIdmap == nil; {
		if errors.Is(err, errAttached) {
			attached = true
			rec.note(sharedNotice)
		} else {
			l.NoIdmap = err
		}
		if plan, err = r.plan(ctx, l, rec, o); err == nil {
			plan.Detach = plan.Detach && !attached
			child, err = r.spawn(plan, l.Dir, l.Spec.Env, listener)
		}
	}
	if errors.Is(err, errAttached) || errors.Is(err, idmap.ErrUnable) {
		err = &spec.Error{Code: spec.CodeUnsupported, Err: err}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	rec.Writable, rec.Hidden, rec.Sealed, rec.DropUID = plan.Writable, plan.Hidden, plan.Sealed, plan.Drop.uid()
	rec.Absent = made.Bounded(plan.Absent)
	rec.PID, rec.StartTicks = child.guest.pid, child.guest.ticks
	rec.WrapperPID, rec.WrapperTicks = child.wrapper.pid, child.wrapper.ticks
	if err := r.save(rec); err != nil {
		conn.Close()
		child.kill()
		return nil, err
	}
	return &firstConn{Conn: conn, child: child}, nil
}

// plan asks for the plan of rec, once more if there is something to be told of it: the
// guest is told too.
func (r *Root) plan(ctx context.Context, l Launch, rec *Record, o ProvisionOptions) (Plan, error) {
	for again := false; ; again = true {
		l.Record, l.Args = *rec, append(serveArgs(l.Spec, rec, l.State, o), l.limits...)
		plan, err := r.Guest(ctx, l)
		plan.group = l.group
		if err != nil || again || !rec.note(plan.Notice) {
			return plan, err
		}
	}
}

// makeWorkdir makes the workdir if it is missing: a person's with the usual mode, our
// own closed to others. Behind a wall a person's has to be there: a command of another
// place may have put something in its way.
func makeWorkdir(rec *Record) error {
	if rec.Isolation != spec.IsolationNone && !rec.OwnWorkdir {
		return nil
	}
	mode := fs.FileMode(0o755)
	if rec.OwnWorkdir {
		mode = 0o700
	}
	err := os.MkdirAll(rec.Workdir, mode)
	if err == nil {
		return nil
	}
	code := spec.CodeInvalidPath
	if errors.Is(err, fs.ErrPermission) {
		code = spec.CodePermission
	}
	return &spec.Error{Code: code, Path: rec.Workdir, Err: fmt.Errorf("the workdir cannot be made: %w", err)}
}

// checkRoot refuses a workspace root that is missing or no directory.
func checkRoot(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return &spec.Error{Code: spec.CodeInvalidPath, Path: dir, Err: fmt.Errorf("the workspace root: %w", err)}
	}
	return nil
}

// serveArgs are the guest's arguments.
func serveArgs(s *spec.Spec, rec *Record, state string, o ProvisionOptions) []string {
	peer := "outside" // behind a wall, only what is beyond it may connect
	if rec.Isolation == spec.IsolationNone {
		peer = "user"
	}
	args := []string{"serve", "--id", rec.ID, "--workdir", rec.Workdir, "--state", state, "--listen-fd", strconv.Itoa(ListenFD), "--environ-fd", strconv.Itoa(EnvironFD), "--peer", peer}
	if s.WorkspaceRoot != "" {
		args = append(args, "--workspace-root", s.WorkspaceRoot)
	}
	if rec.Ephemeral {
		args = append(args, "--ephemeral")
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"--orphan-after", o.OrphanAfter}, {"--resume", o.Resume}, {"--idle", rec.IdleTimeout}, {"--ttl", rec.TTL}} {
		if d.value > 0 {
			args = append(args, d.flag, d.value.String())
		}
	}
	if rec.Notice != "" {
		args = append(args, "--notice", rec.Notice)
	}
	return args
}

// listen makes the guest's socket and connects to it: the connection waits in the
// backlog until the guest takes it, and breaks if the guest dies before.
func listen(ctx context.Context, path string) (*os.File, net.Conn, error) {
	dir, err := openDir(path)
	if err != nil {
		return nil, nil, hostError(err)
	}
	defer dir.Close()
	if err := unix.Unlinkat(int(dir.Fd()), sockName, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, nil, hostError(os.NewSyscallError("unlinkat", err))
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, hostError(os.NewSyscallError("socket", err))
	}
	listener := os.NewFile(uintptr(fd), sockName)
	err = os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrUnix{Name: sockPath(dir)}))
	if err == nil {
		err = os.NewSyscallError("fchmodat", unix.Fchmodat(int(dir.Fd()), sockName, 0o600, 0))
	}
	if err == nil {
		err = os.NewSyscallError("listen", unix.Listen(fd, backlog))
	}
	if err != nil {
		listener.Close()
		return nil, nil, hostError(err)
	}
	conn, err := connect(ctx, dir)
	if err != nil {
		listener.Close()
		return nil, nil, hostError(err)
	}
	return listener, conn, nil
}

func connect(ctx context.Context, dir *os.File) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", sockPath(dir))
	if err != nil {
		return nil, err
	}
	if err := checkServer(conn.(*net.UnixConn)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// checkServer refuses a socket on which somebody else listens: it would be told what is
// meant for the guest.
func checkServer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	ctlErr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(ctlErr, err); err != nil {
		return err
	}
	if int(cred.Uid) != os.Geteuid() {
		return &spec.Error{Code: spec.CodePermission, Err: fmt.Errorf("uid %d listens in the place of the guest", cred.Uid)}
	}
	return nil
}

// child is a guest that this process has started.
type child struct {
	guest   proc
	wrapper proc // pid 0 without one
	process *os.Process
	log     string
	ended   chan struct{} // closed when the started process has been waited for
	err     error         // of the wait; to be read after ended
}

// errAttached says that the process could not be started in a mount namespace of its own.
var errAttached = errors.New("no mount namespace of its own")

// sharedNotice is what a person should know where that is so.
const sharedNotice = "this user may not make a mount namespace: what is mounted on this machine later appears in the sandbox, and can be written there by whoever may write it here"

// uid is 0 for nobody.
func (id *Identity) uid() int {
	if id == nil {
		return 0
	}
	return id.UID
}

// spawn starts the planned process: in a session of its own, with no descriptor of ours
// but the listener, and with nobody's death tied to it - a parent-death signal follows
// the thread that forked, and Go ends threads. The error is errAttached or
// idmap.ErrUnable where the plan demands what this user may not or this machine cannot.
func (r *Root) spawn(plan Plan, dir string, env map[string]string, listener *os.File) (*child, error) {
	logPath := filepath.Join(dir, logName)
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, hostError(err)
	}
	defer log.Close()
	inside, err := begin.Handed(begin.Joined(r.BaseEnv, env))
	if err != nil {
		if spec.CodeOf(err) != spec.CodeInvalid {
			err = hostError(err)
		}
		return nil, err
	}
	defer inside.Close()
	files := []*os.File{ListenFD - 3: listener, EnvironFD - 3: inside}
	var info *os.File
	if plan.Wrapped {
		in, out, err := os.Pipe()
		if err != nil {
			return nil, hostError(err)
		}
		defer in.Close()
		defer out.Close()
		info = in
		files = append(files, out) // InfoFD
	}
	hold := 0
	if plan.group.Hold != nil {
		files = append(files, plan.group.Hold)
		hold = 2 + len(files)
	}
	files = begin.CloseInherited(files)
	ways := []syscall.SysProcAttr{{Setsid: true}}
	if plan.Detach && len(plan.Idmapped) == 0 { // which has a namespace of its own anyway
		ways = begin.Detached()
	}
	path, args := plan.joined(processName(dir), hold)
	var cmd *exec.Cmd
	for _, way := range ways {
		cmd = exec.Command(path, args...)
		cmd.Args[0] = processName(dir)
		cmd.Dir = "/"
		cmd.Env = begin.Environ()
		cmd.Stdout, cmd.Stderr, cmd.ExtraFiles, cmd.SysProcAttr = log, log, files, &way
		if err = r.begin(cmd, &plan); err == nil || !begin.Forbidden(err) {
			break
		}
	}
	switch {
	case errors.Is(err, idmap.ErrUnable):
		return nil, err
	case err != nil && plan.Detach && begin.Forbidden(err):
		return nil, errAttached
	case err != nil:
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the guest cannot be started: %w", err), Hint: spec.HintOf(hostError(err))}
	case plan.Wrapped:
		files[InfoFD-3].Close()
	}
	started, _ := identify(cmd.Process.Pid) // not waited for yet, so it is there, if it may be hidden by now
	c := &child{guest: started, process: cmd.Process, log: logPath, ended: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.ended)
	}()
	if plan.Wrapped {
		guest, err := readInfo(info)
		if err != nil {
			return nil, c.explain(err)
		}
		c.guest, c.wrapper = guest, started
	}
	return c, nil
}

// readInfo reads what a wrapper says of the process that it made.
func readInfo(info *os.File) (proc, error) {
	_ = info.SetReadDeadline(time.Now().Add(infoTimeout))
	data, err := io.ReadAll(io.LimitReader(info, maxInfoBytes))
	if err != nil {
		return proc{}, fmt.Errorf("the wrapper says nothing: %w", err)
	}
	var said struct {
		PID int `json:"child-pid"`
	}
	if err := json.Unmarshal(data, &said); err != nil || said.PID <= 1 {
		return proc{}, errors.New("the wrapper does not say which process it made")
	}
	p, err := identify(said.PID)
	if err != nil && !errors.Is(err, procstat.ErrHidden) {
		return proc{}, errors.New("the wrapped process is gone")
	}
	return p, nil
}

// explain turns an error of a guest that has just been started into one that says how
// it ended and what it said last. A guest that has not ended by then is killed.
func (c *child) explain(cause error) error {
	select {
	case <-c.ended:
	case <-time.After(deathTimeout):
		c.kill()
		return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the guest does not answer: %w%s", cause, c.tail())}
	}
	how := "exit status 0"
	if c.err != nil {
		how = c.err.Error()
	}
	return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the guest ended at its start (%s)%s: %w", how, c.tail(), cause)}
}

// kill ends the started process and everything below it.
func (c *child) kill() {
	for _, p := range append(descendants(c.guest), c.wrapper, c.guest) {
		if h, err := p.open(); err == nil && h != nil {
			_ = h.kill()
			h.close()
		}
	}
	_ = c.process.Kill() // it may be hidden
}

// tail quotes the end of the guest's log.
func (c *child) tail() string {
	f, err := os.Open(c.log)
	if err != nil {
		return ""
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > maxTailBytes {
		_, _ = f.Seek(-maxTailBytes, io.SeekEnd)
	}
	data, _ := io.ReadAll(io.LimitReader(f, maxTailBytes))
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return ""
	}
	return ": " + strings.ToValidUTF8(string(data), "?")
}

// firstConn is the connection of the process that started the guest: until the guest
// has said something, the connection's end is explained by the guest's.
type firstConn struct {
	net.Conn
	child *child
	heard atomic.Bool
}

// Read implements io.Reader.
func (c *firstConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard.Store(true)
	}
	if err != nil && n == 0 && !c.heard.Load() && !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
		err = c.child.explain(err)
	}
	return n, err
}
