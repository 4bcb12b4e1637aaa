package drivertest

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/berth-dev/berth/drivertest/internal/rawcall"
	"github.com/berth-dev/berth/spec"
)

// machine is what a wall keeps from commands on this machine, made to be found.
type machine struct {
	canary string
	// base is outside of the directories for temporary files; home and work are in it.
	base, home, work string
	// tmp, run and other are directories in /tmp, in /run and among the homes of
	// others. "": this user can make none there.
	tmp, run, other string
	// Sockets on which this process listens, all of which greet with the canary.
	tcp                             *net.TCPAddr
	abstract                        string
	socketRun, socketTmp, socketDir string
	// victim is a process of this user.
	victim *exec.Cmd

	listeners []net.Listener
}

// newMachine makes it. What it has made when it fails is the caller's to close.
func newMachine() (*machine, error) {
	m := &machine{canary: "canary-" + randomHex()}
	if runtime.GOOS != "linux" {
		return m, &spec.Error{Code: spec.CodeUnsupported, Err: errors.New("walls are probed on linux only")}
	}
	var err error
	if m.base, err = os.MkdirTemp("/var/lib", "berth-walls-"); err != nil {
		dir, homeErr := os.UserHomeDir()
		if homeErr != nil {
			return m, homeErr
		}
		if m.base, err = os.MkdirTemp(dir, "berth-walls-"); err != nil {
			return m, err
		}
	}
	if m.tmp, err = os.MkdirTemp("/tmp", "berth-walls-"); err != nil {
		return m, err
	}
	// Without the rights for these, there is nothing to be found.
	m.run, _ = os.MkdirTemp("/run", "berth-walls-")
	m.other, _ = os.MkdirTemp("/home", "berth-walls-")
	m.home, m.work = filepath.Join(m.base, "home"), filepath.Join(m.base, "work")
	for _, dir := range []string{m.base, m.tmp, m.run, m.other, m.home, m.work} {
		if dir == "" {
			continue
		}
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "canary"), []byte(m.canary), 0o644)); err != nil {
			return m, err
		}
	}
	key, hook := filepath.Join(m.home, ".ssh", "id_berth"), filepath.Join(m.work, ".git", "hooks", "pre-commit")
	err = errors.Join(
		os.MkdirAll(filepath.Dir(key), 0o700), os.WriteFile(key, []byte(m.canary), 0o600),
		os.MkdirAll(filepath.Dir(hook), 0o755), os.WriteFile(hook, []byte("#!/bin/sh\n"), 0o755),
		m.listen(),
	)
	if err != nil {
		return m, err
	}
	m.victim = exec.Command("sleep", "3600")
	return m, m.victim.Start()
}

func (m *machine) listen() error {
	m.abstract = "@berth-walls-" + randomHex()
	m.socketTmp, m.socketDir = filepath.Join(m.tmp, "s"), filepath.Join(m.work, "s")
	addresses := [][2]string{{"tcp4", "127.0.0.1:0"}, {"unix", m.abstract}, {"unix", m.socketTmp}, {"unix", m.socketDir}}
	if m.run != "" {
		m.socketRun = filepath.Join(m.run, "s")
		addresses = append(addresses, [2]string{"unix", m.socketRun})
	}
	for _, a := range addresses {
		l, err := net.Listen(a[0], a[1])
		if err != nil {
			return err
		}
		m.listeners = append(m.listeners, l)
		if tcp, ok := l.Addr().(*net.TCPAddr); ok {
			m.tcp = tcp
		} else if a[1] != m.abstract {
			if err := os.Chmod(a[1], 0o777); err != nil {
				return err
			}
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return // it was closed
				}
				_, _ = c.Write([]byte(m.canary))
				c.Close()
			}
		}()
	}
	return nil
}

// close removes and ends all that was made.
func (m *machine) close() error {
	var errs []error
	for _, l := range m.listeners {
		errs = append(errs, l.Close())
	}
	if m.victim != nil && m.victim.Process != nil {
		_ = m.victim.Process.Kill() // a probe may have ended it
		_ = m.victim.Wait()
	}
	for _, dir := range []string{m.base, m.tmp, m.run, m.other} {
		if dir != "" {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

// ids runs a program that prints its results here, outside of every place.
func (m *machine) ids(calls ...rawcall.Call) ([]byte, error) {
	name := filepath.Join(m.base, "program")
	if err := os.WriteFile(name, rawcall.Program(calls...), 0o755); err != nil {
		return nil, err
	}
	return exec.Command(name).Output()
}

// hasRoute says whether this machine itself has a way to the outside.
func hasRoute() bool {
	c, err := net.Dial("udp4", net.JoinHostPort(net.IP(outside[:]).String(), "9"))
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// outside is an address that nobody has (RFC 5737), to which nothing is sent.
var outside = [4]byte{203, 0, 113, 1}

// serial is a number that a program has printed from one of its slots.
func serial(out []byte) int32 {
	if len(out) < 8 {
		return 0
	}
	return int32(binary.LittleEndian.Uint64(out))
}
