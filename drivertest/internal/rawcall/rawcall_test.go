//go:build linux && amd64

package rawcall_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/drivertest/internal/rawcall"
)

// run runs a program and returns its output and its status.
func run(t *testing.T, calls ...rawcall.Call) (string, int) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(name, rawcall.Program(calls...), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(name).Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return string(out), exit.ExitCode()
	case err != nil:
		t.Fatal(err)
	}
	return string(out), 0
}

// A program makes its calls in order, hands results on, and ends with what went wrong.
func TestProgram(t *testing.T) {
	hello := rawcall.Call{Number: rawcall.Write, Args: []rawcall.Arg{rawcall.Int(1), rawcall.Bytes([]byte("hello")), rawcall.Int(5)}}
	missing := rawcall.Call{Number: rawcall.Open, Args: []rawcall.Arg{rawcall.String("/no/such/file")}}
	may := missing
	may.May = true
	for name, tt := range map[string]struct {
		calls  []rawcall.Call
		out    string
		status int
	}{
		"nothing":             {nil, "", 0},
		"one":                 {[]rawcall.Call{hello}, "hello", 0},
		"it ends at an error": {[]rawcall.Call{hello, missing, hello}, "hello", int(syscall.ENOENT)},
		"unless it may fail":  {[]rawcall.Call{may, hello}, "hello", 0},
		"a result is handed on": {[]rawcall.Call{
			{Number: rawcall.Open, Args: []rawcall.Arg{rawcall.String("/proc/self/comm")}},
			{Number: rawcall.Read, Args: []rawcall.Arg{rawcall.Result(0), rawcall.Address(0), rawcall.Int(7)}},
			{Number: rawcall.Write, Args: []rawcall.Arg{rawcall.Int(1), rawcall.Address(0), rawcall.Result(1)}},
		}, "program", 0},
		"six arguments": {[]rawcall.Call{
			{Number: 9, Args: []rawcall.Arg{rawcall.Int(0), rawcall.Int(4096), rawcall.Int(3), rawcall.Int(0x22), rawcall.Int(-1), rawcall.Int(0)}},
			{Number: 11, Args: []rawcall.Arg{rawcall.Result(0), rawcall.Int(4096)}},
		}, "", 0},
	} {
		if out, status := run(t, tt.calls...); out != tt.out || status != tt.status {
			t.Errorf("%s: %q, status %d; want %q, %d", name, out, status, tt.out, tt.status)
		}
	}
	out, _ := run(t, rawcall.Call{Number: 39}, rawcall.Call{Number: rawcall.Write, Args: []rawcall.Arg{rawcall.Int(1), rawcall.Address(0), rawcall.Int(8)}})
	if pid := binary.LittleEndian.Uint64([]byte(out)); pid < 2 || pid > 1<<22 {
		t.Errorf("its pid is %d", pid)
	}
}

// A connection is one, by TCP, by a path and by an abstract name.
func TestConnect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": path, "unix ": "@berth-rawcall-" + filepath.Base(filepath.Dir(path))} {
		l, err := net.Listen(string(bytes.TrimSpace([]byte(network))), address)
		if err != nil {
			t.Fatal(err)
		}
		calls := func() []rawcall.Call {
			if a, ok := l.Addr().(*net.TCPAddr); ok {
				return rawcall.ConnectInet(rawcall.Stream, [4]byte(a.IP.To4()), uint16(a.Port))
			}
			if address[0] == '@' {
				return rawcall.ConnectUnix("\x00" + address[1:])
			}
			return rawcall.ConnectUnix(address)
		}()
		if _, status := run(t, calls...); status != 0 {
			t.Errorf("%s: status %d", address, status)
		}
		l.Close()
		if _, status := run(t, calls...); status != int(syscall.ECONNREFUSED) && status != int(syscall.ENOENT) {
			t.Errorf("%s closed: status %d", address, status)
		}
	}
}
