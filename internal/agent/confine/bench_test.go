//go:build linux

package confine_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// latency measures connect(2) alone, without anybody who accepts and takes a processor, and
// prints the median by kind of socket.
func latency([]string) error {
	const rounds = 1000
	l, err := listen(unix.SOCK_STREAM, "latency", rounds)
	if err != nil {
		return err
	}
	defer unix.Close(l)
	tcp, port := inetListen(3 * rounds)
	defer unix.Close(tcp)
	for _, kind := range []struct {
		what string
		dial func() (time.Duration, error)
	}{
		{"unix", func() (time.Duration, error) { return timed(unix.AF_UNIX, unix.SOCK_STREAM, address("latency")) }},
		{"tcp", func() (time.Duration, error) { return timed(unix.AF_INET, unix.SOCK_STREAM, loopback(port)) }},
		{"tcp-nonblocking", func() (time.Duration, error) {
			return timed(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, loopback(port))
		}},
		{"udp", func() (time.Duration, error) { return timed(unix.AF_INET, unix.SOCK_DGRAM, loopback(port)) }},
	} {
		var all []time.Duration
		for range rounds {
			took, err := kind.dial()
			if err != nil {
				return fmt.Errorf("%s: %w", kind.what, err)
			}
			all = append(all, took)
		}
		slices.Sort(all)
		fmt.Println(kind.what, float64(all[len(all)/2])/1000)
	}
	return nil
}

func timed(domain, kind int, addr []byte) (time.Duration, error) {
	fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	begun := time.Now()
	err = call(unix.SYS_CONNECT, fd, addr)
	took := time.Since(begun)
	if err == unix.EINPROGRESS {
		err = nil
	}
	return took, err
}

// BenchmarkConnect reports the median of connect(2) with and without a gate.
func BenchmarkConnect(b *testing.B) {
	report := func(prefix, out string) {
		for line := range strings.Lines(out) {
			var what string
			var micros float64
			if _, err := fmt.Sscan(line, &what, &micros); err != nil {
				b.Fatal(out)
			}
			b.ReportMetric(micros, what+"-"+prefix+"-µs")
		}
	}
	for range b.N {
		cmd := exec.Command("/proc/self/exe", asCommand, "latency")
		cmd.Dir = openDir(b)
		out, err := cmd.Output()
		if err != nil {
			b.Fatal(err)
		}
		report("plain", string(out))
		report("confined", place{}.run(b, openDir(b), "latency"))
	}
}
