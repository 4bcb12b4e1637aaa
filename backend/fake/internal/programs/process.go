package programs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/backend/fake/internal/kernel"
)

// become runs another program in p, and says why it cannot.
func become(p *kernel.Proc, args, environ []string) int {
	path, _ := p.Lookup("PATH")
	name := p.Args()[0]
	main, err := p.Exec(args, environ, path)
	if err != nil {
		fmt.Fprintf(p.FD(2), "%s: %s: %v\n", name, args[0], err)
		if errors.Is(err, fs.ErrNotExist) {
			return 127
		}
		return 126
	}
	return main(p)
}

// env prints the environment, or runs a program in a changed one: env [-i] [-u name]
// [name=value...] [program [arg...]].
func env(p *kernel.Proc) int {
	flags, args, ok := options(p, "iu:0")
	if !ok {
		return 125
	}
	environ := slices.Clone(p.Env())
	if has(flags, 'i') {
		environ = nil
	}
	drop := func(name string) {
		environ = slices.DeleteFunc(environ, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	}
	if name, ok := flags['u']; ok {
		drop(name)
	}
	for len(args) > 0 && strings.Contains(args[0], "=") {
		name, _, _ := strings.Cut(args[0], "=")
		drop(name)
		environ = append(environ, args[0])
		args = args[1:]
	}
	if len(args) > 0 {
		return become(p, args, environ)
	}
	end := "\n"
	if has(flags, '0') {
		end = "\x00"
	}
	for _, entry := range environ {
		if _, err := io.WriteString(p.FD(1), entry+end); err != nil {
			return 1
		}
	}
	return 0
}

func printenv(p *kernel.Proc) int {
	names := p.Args()[1:]
	if len(names) == 0 {
		return env(p)
	}
	status := 0
	for _, name := range names {
		if value, ok := p.Lookup(name); ok {
			fmt.Fprintln(p.FD(1), value)
		} else {
			status = 1
		}
	}
	return status
}

func pwd(p *kernel.Proc) int {
	fmt.Fprintln(p.FD(1), p.Dir())
	return 0
}

// duration reads the argument of sleep and timeout: a number with s, m, h or d.
func duration(s string) (time.Duration, bool) {
	if s == "infinity" {
		return 1 << 62, true
	}
	unit := time.Second
	if n := len(s); n > 0 {
		if u, ok := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[s[n-1]]; ok {
			s, unit = s[:n-1], u
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	return time.Duration(n * float64(unit)), err == nil && n >= 0
}

func sleep(p *kernel.Proc) int {
	if len(p.Args()) < 2 {
		return missing(p)
	}
	var total time.Duration
	for _, arg := range p.Args()[1:] {
		d, ok := duration(arg)
		if !ok {
			complain(p, "invalid time interval '%s'", arg)
			return 1
		}
		total += d
	}
	if p.Sleep(total) != nil {
		return 1
	}
	return 0
}

// timeout runs a program and ends it: timeout [-s signal] [-k duration] duration program [arg...].
func timeout(p *kernel.Proc) int {
	flags, args, ok := options(p, "s:k:")
	if !ok || len(args) < 2 {
		return 125
	}
	limit, ok := duration(args[0])
	if !ok {
		complain(p, "invalid time interval '%s'", args[0])
		return 125
	}
	sig := 15
	if name, given := flags['s']; given {
		if sig, ok = ParseSignal(name); !ok {
			complain(p, "%s: invalid signal", name)
			return 125
		}
	}
	child, err := p.Fork(false, func(c *kernel.Proc) int { return become(c, args[1:], c.Env()) })
	if err != nil {
		return 125
	}
	late := make(chan struct{})
	timers := []*time.Timer{time.AfterFunc(limit, func() {
		close(late)
		_ = p.Kill(child.PID, sig)
	})}
	if after, given := flags['k']; given {
		if d, ok := duration(after); ok {
			timers = append(timers, time.AfterFunc(limit+d, func() { _ = p.Kill(child.PID, 9) }))
		}
	}
	st, err := p.Wait(child.PID, false)
	for _, t := range timers {
		t.Stop()
	}
	select {
	case <-late:
		if st.Signal == 9 {
			return 137
		}
		return 124
	default:
	}
	if err != nil {
		return 125
	}
	return st.ExitCode()
}

func setsid(p *kernel.Proc) int {
	_, args, ok := options(p, "w")
	if !ok || len(args) == 0 {
		return missing(p)
	}
	p.Setsid()
	return become(p, args, p.Env())
}

func date(p *kernel.Proc) int {
	_, args, ok := options(p, "u")
	if !ok {
		return 1
	}
	now := time.Now().UTC()
	out := now.Format("Mon Jan _2 15:04:05 UTC 2006")
	if len(args) > 0 {
		format, ok := strings.CutPrefix(args[0], "+")
		if !ok {
			complain(p, "invalid date '%s'", args[0])
			return 1
		}
		out = strings.NewReplacer(
			"%%", "%", "%Y", now.Format("2006"), "%m", now.Format("01"), "%d", now.Format("02"), "%H", now.Format("15"),
			"%M", now.Format("04"), "%S", now.Format("05"), "%s", strconv.FormatInt(now.Unix(), 10), "%N", now.Format("000000000"),
			"%F", now.Format(time.DateOnly), "%T", now.Format(time.TimeOnly), "%Z", "UTC", "%z", "+0000", "%n", "\n",
		).Replace(format)
	}
	fmt.Fprintln(p.FD(1), out)
	return 0
}

func seq(p *kernel.Proc) int {
	flags, args, ok := options(p, "s:w")
	if !ok || len(args) == 0 || len(args) > 3 {
		return missing(p)
	}
	var n [3]int
	for i, arg := range args {
		v, err := strconv.Atoi(arg)
		if err != nil {
			complain(p, "invalid integer argument: '%s'", arg)
			return 1
		}
		n[i] = v
	}
	first, step, last := 1, 1, n[0]
	switch len(args) {
	case 2:
		first, last = n[0], n[1]
	case 3:
		first, step, last = n[0], n[1], n[2]
	}
	if step == 0 {
		complain(p, "invalid Zero increment value: '0'")
		return 1
	}
	separator := "\n"
	if s, given := flags['s']; given {
		separator = s
	}
	var buf bytes.Buffer
	for i := first; step > 0 && i <= last || step < 0 && i >= last; i += step {
		if i != first {
			buf.WriteString(separator)
		}
		fmt.Fprintf(&buf, "%d", i)
		if buf.Len() > 32<<10 {
			if _, err := buf.WriteTo(p.FD(1)); err != nil {
				return 1
			}
		}
	}
	buf.WriteString("\n")
	if _, err := buf.WriteTo(p.FD(1)); err != nil {
		return 1
	}
	return 0
}

func yes(p *kernel.Proc) int {
	line := "y\n"
	if args := p.Args()[1:]; len(args) > 0 {
		line = strings.Join(args, " ") + "\n"
	}
	block := []byte(strings.Repeat(line, 1+8<<10/len(line)))
	for {
		if _, err := p.FD(1).Write(block); err != nil {
			return 1
		}
	}
}

// xargs runs a program with the words of its input: xargs [-0] [-n max] [program [arg...]].
func xargs(p *kernel.Proc) int {
	flags, args, ok := options(p, "0rn:")
	if !ok {
		return 1
	}
	data, err := io.ReadAll(p.FD(0))
	if err != nil {
		return 1
	}
	words := strings.Fields(string(data))
	if has(flags, '0') {
		words = strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
	}
	if len(args) == 0 {
		args = []string{"echo"}
	}
	if len(words) == 0 && has(flags, 'r') {
		return 0
	}
	most, ok := count(p, flags, max(len(words), 1))
	if !ok || most == 0 {
		return 1
	}
	status := 0
	for first := true; first || len(words) > 0; first = false {
		n := min(most, len(words))
		line := append(slices.Clone(args), words[:n]...)
		words = words[n:]
		child, err := p.Fork(false, func(c *kernel.Proc) int {
			c.Put(0, kernel.Null())
			return become(c, line, c.Env())
		})
		if err != nil {
			return 1
		}
		if st, err := p.Wait(child.PID, false); err != nil || st.ExitCode() != 0 {
			status = 123
		}
	}
	return status
}
