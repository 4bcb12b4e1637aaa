//go:build linux

package confine

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/openat2"
)

// Options say how the commands of a place are confined.
type Options struct {
	// RefuseClone3 refuses clone3, whose flags a filter cannot see: for a place in which
	// nothing else keeps commands from making user namespaces. The guest itself cannot
	// start a process in a control group by it then.
	RefuseClone3 bool
}

// Install confines all that this process starts from now on, and its own threads as far as
// they notice: it is called once, before the first command, when the process has become
// who its commands are to run as. It sets no_new_privs. There is no way back; what answers
// the calls of commands ends with the process.
//
// notice says what a person should know of it, or is "". An error means that nothing is
// confined and no command may run.
func Install(o Options) (notice string, err error) {
	tables := abis[runtime.GOARCH]
	if tables == nil {
		return "", fmt.Errorf("confine: there is no filter for %s", runtime.GOARCH)
	}
	p := policy{abis: tables, clone3: o.RefuseClone3, pass: newPass()}
	openat2.Pass(p.pass[1], p.pass[2])
	g, why := newGate()
	if why == nil {
		p.asks, g.pass = true, p.pass
		if why = g.install(&p); why == nil {
			return "", nil
		}
		g.diag.close()
	}
	p.asks = false
	filter, err := p.filter()
	if err == nil {
		_, err = apply(filter, false)
	}
	if err != nil {
		return "", fmt.Errorf("confine: seccomp: %w", err)
	}
	return fmt.Sprintf("commands cannot make unix sockets, because connections to outside cannot be told from others here: %v", why), nil
}

// gate answers the calls that the filter does not decide.
type gate struct {
	queue     queue
	pass      pass
	diag      *diag
	listeners *listeners
	attempts  attempts
	waiting   waiting
	watch     watch
	blocking  blocking
	pages     pages
	retries   chan struct{} // bounds the tries of waiting callers at one time
}

// newPass makes one that nobody can guess.
func newPass() (p pass) {
	var random [24]byte
	_, _ = rand.Read(random[:]) // it never fails
	for i := range p {
		p[i] = binary.NativeEndian.Uint64(random[8*i:])
	}
	return p
}

// newGate prepares a gate, and says why there cannot be one here.
func newGate() (*gate, error) {
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if s := strings.TrimSpace(string(scope)); err == nil && s != "0" && s != "1" {
		return nil, fmt.Errorf("kernel.yama.ptrace_scope is %s", s)
	}
	g := &gate{retries: make(chan struct{}, maxRetries)}
	if g.diag, err = newDiag(); err != nil {
		return nil, fmt.Errorf("sock_diag: %w", err)
	}
	g.listeners = newListeners(g.diag)
	if err := g.probe(); err != nil {
		g.diag.close()
		return nil, err
	}
	return g, nil
}

// probe does once to this process itself what is to be done to callers.
func (g *gate) probe() error {
	sock, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(sock)
	id, err := identify(sock)
	if err == nil {
		_, err = g.diag.bound(id)
	}
	if err != nil {
		return fmt.Errorf("sock_diag for unix sockets: %w", err)
	}
	own := call{tid: uint32(os.Getpid())}
	again, err := duplicate(&own, sock)
	if err != nil {
		return fmt.Errorf("pidfd_getfd: %w", err)
	}
	unix.Close(again)
	if err := readSelf(); err != nil {
		return fmt.Errorf("process_vm_readv: %w", err)
	}
	return nil
}

// install puts the filter in force and begins to answer.
func (g *gate) install(p *policy) error {
	filter, err := p.filter()
	if err != nil {
		return err
	}
	if g.queue, err = apply(filter, true); err != nil {
		return fmt.Errorf("seccomp listener: %w", err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		limit.Cur = 0
	}
	// A connection that waits holds two descriptors.
	g.waiting.most = int32(min(limit.Cur/4, maxWaiting))
	g.watch.workers = 1
	go g.work()
	return nil
}

// work answers calls, one after the other. It ends when it is one too many.
func (g *gate) work() {
	for {
		c, err := g.queue.next()
		if err != nil {
			return // the last process with the filter has gone
		}
		g.watch.begin(g.work)
		g.serve(&c)
		if g.watch.end() {
			return
		}
	}
}

// serve answers one call.
func (g *gate) serve(c *call) {
	for _, a := range abis[runtime.GOARCH] {
		number := uint32(c.number)
		switch {
		case c.arch != a.arch:
			continue
		case number == a.connect:
			g.connect(c)
			return
		case number == a.listen:
			g.listen(c)
			return
		case a.changesProcess(number):
			g.process(c, &a)
			return
		case a.changesMode(number):
			g.chmod(c, &a)
			return
		}
	}
	g.queue.reply(c.id, unix.ENOSYS) // the filter asks for nothing else
}

// listen notes the socket, if it is a unix one, and lets the call through. It is of no use
// to a command to put another one in its place: who is noted has been held by a command,
// and on who is not nobody connects.
func (g *gate) listen(c *call) {
	defer g.queue.letThrough(c.id)
	sock, err := duplicate(c, int(int32(c.args[0])))
	if err != nil {
		return
	}
	defer unix.Close(sock)
	if domain, err := unix.GetsockoptInt(sock, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || domain != unix.AF_UNIX {
		return
	}
	if id, err := identify(sock); err == nil && g.queue.waits(c.id) {
		g.listeners.add(id)
	}
}
