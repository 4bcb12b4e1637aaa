package programs

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/backend/fake/internal/kernel"
)

func cat(p *kernel.Proc) int {
	_, names, ok := options(p, "u")
	if !ok {
		return 2
	}
	buf := make([]byte, 64<<10)
	return each(p, names, func(_ string, r io.Reader) error {
		_, err := io.CopyBuffer(struct{ io.Writer }{p.FD(1)}, struct{ io.Reader }{r}, buf)
		return err
	})
}

// count reads the number of an option like -n 5, or of -5.
func count(p *kernel.Proc, flags map[byte]string, otherwise int) (int, bool) {
	value, ok := flags['n']
	if !ok {
		return otherwise, true
	}
	n, err := strconv.Atoi(strings.TrimPrefix(value, "+"))
	if err != nil || n < 0 {
		complain(p, "invalid number of lines: '%s'", value)
		return 0, false
	}
	return n, true
}

func head(p *kernel.Proc) int {
	flags, names, ok := options(p, "#n:c:q")
	if !ok {
		return 2
	}
	n, ok := count(p, flags, 10)
	if !ok {
		return 1
	}
	return each(p, names, func(_ string, r io.Reader) error {
		if c, bytes := flags['c']; bytes {
			size, err := strconv.ParseInt(c, 10, 64)
			if err != nil {
				return err
			}
			_, err = io.Copy(p.FD(1), io.LimitReader(r, size))
			return err
		}
		return firstLines(p.FD(1), r, n)
	})
}

// firstLines copies the first n lines of r to w, each as soon as it comes.
func firstLines(w io.Writer, r io.Reader, n int) error {
	buf := make([]byte, 32<<10)
	for n > 0 {
		k, err := r.Read(buf)
		end := 0
		for ; n > 0 && end < k; n-- {
			i := bytes.IndexByte(buf[end:k], '\n')
			if i < 0 {
				end = k
				break
			}
			end += i + 1
		}
		if _, err := w.Write(buf[:end]); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lines calls do with each line, its newline included, until that fails.
func lines(r io.Reader, do func(i int, line []byte) error) error {
	br := bufio.NewReader(r)
	for i := 0; ; i++ {
		line, err := br.ReadBytes('\n')
		if len(line) > 0 {
			if err := do(i, line); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// all collects the lines of the files, each with a newline.
func all(p *kernel.Proc, names []string) (out [][]byte, status int) {
	status = each(p, names, func(_ string, r io.Reader) error {
		return lines(r, func(_ int, line []byte) error {
			out = append(out, append(bytes.TrimSuffix(line, []byte("\n")), '\n'))
			return nil
		})
	})
	return out, status
}

func tail(p *kernel.Proc) int {
	flags, names, ok := options(p, "#n:q")
	if !ok {
		return 2
	}
	n, ok := count(p, flags, 10)
	if !ok {
		return 1
	}
	from := strings.HasPrefix(flags['n'], "+")
	return each(p, names, func(_ string, r io.Reader) error {
		var kept [][]byte
		err := lines(r, func(i int, line []byte) error {
			if from && i+1 < n {
				return nil
			}
			if kept = append(kept, line); !from && len(kept) > n {
				kept = kept[1:]
			}
			return nil
		})
		if err == nil {
			_, err = p.FD(1).Write(bytes.Join(kept, nil))
		}
		return err
	})
}

func wc(p *kernel.Proc) int {
	flags, names, ok := options(p, "lwcm")
	if !ok {
		return 2
	}
	if len(flags) == 0 {
		flags = map[byte]string{'l': "", 'w': "", 'c': ""}
	}
	return each(p, names, func(name string, r io.Reader) error {
		var counts [3]int
		err := lines(r, func(_ int, line []byte) error {
			if line[len(line)-1] == '\n' {
				counts[0]++
			}
			counts[1] += len(bytes.Fields(line))
			counts[2] += len(line)
			return nil
		})
		if err != nil {
			return err
		}
		var out []string
		for i, c := range []byte("lwc") {
			if has(flags, c) || c == 'c' && has(flags, 'm') {
				out = append(out, strconv.Itoa(counts[i]))
			}
		}
		if name != "-" {
			out = append(out, name)
		}
		_, err = fmt.Fprintln(p.FD(1), strings.Join(out, " "))
		return err
	})
}

func tee(p *kernel.Proc) int {
	flags, names, ok := options(p, "a")
	if !ok {
		return 2
	}
	flag := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if has(flags, 'a') {
		flag = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	outputs := []io.Writer{p.FD(1)}
	for i, name := range names {
		f, err := p.Open(name, flag, 0o666)
		if err != nil {
			complain(p, "%s: %v", name, err)
			return 1
		}
		p.Put(10+i, f)
		outputs = append(outputs, p.FD(10+i))
	}
	if _, err := io.Copy(io.MultiWriter(outputs...), p.FD(0)); err != nil {
		return 1
	}
	return 0
}

func sortLines(p *kernel.Proc) int {
	flags, names, ok := options(p, "nru")
	if !ok {
		return 2
	}
	list, status := all(p, names)
	slices.SortStableFunc(list, func(a, b []byte) int {
		if has(flags, 'n') {
			if c := cmp.Compare(leadingNumber(a), leadingNumber(b)); c != 0 {
				return c
			}
		}
		return bytes.Compare(a, b)
	})
	if has(flags, 'u') {
		list = slices.CompactFunc(list, bytes.Equal)
	}
	if has(flags, 'r') {
		slices.Reverse(list)
	}
	_, _ = p.FD(1).Write(bytes.Join(list, nil))
	return status
}

func leadingNumber(line []byte) float64 {
	s := strings.TrimSpace(string(line))
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || s[end] == '.' || end == 0 && s[end] == '-') {
		end++
	}
	n, _ := strconv.ParseFloat(s[:end], 64)
	return n
}

func uniq(p *kernel.Proc) int {
	flags, names, ok := options(p, "cd")
	if !ok {
		return 2
	}
	list, status := all(p, names)
	for i := 0; i < len(list); {
		n := 1
		for i+n < len(list) && bytes.Equal(list[i], list[i+n]) {
			n++
		}
		if !has(flags, 'd') || n > 1 {
			if has(flags, 'c') {
				fmt.Fprintf(p.FD(1), "%7d ", n)
			}
			_, _ = p.FD(1).Write(list[i])
		}
		i += n
	}
	return status
}

// set is the bytes that an argument of tr means.
func set(s string) []byte {
	for name, class := range map[string]string{"[:upper:]": "A-Z", "[:lower:]": "a-z", "[:digit:]": "0-9", "[:alpha:]": "A-Za-z", "[:alnum:]": "A-Za-z0-9", "[:space:]": " \t\n\r\v\f"} {
		s = strings.ReplaceAll(s, name, class)
	}
	s = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\0`, "\x00", `\\`, `\`).Replace(s)
	var out []byte
	for i := 0; i < len(s); i++ {
		if i+2 < len(s) && s[i+1] == '-' && s[i] <= s[i+2] {
			for c := int(s[i]); c <= int(s[i+2]); c++ {
				out = append(out, byte(c))
			}
			i += 2
			continue
		}
		out = append(out, s[i])
	}
	return out
}

func tr(p *kernel.Proc) int {
	flags, sets, ok := options(p, "dsc")
	if !ok || len(sets) == 0 || len(sets) < 2 && !has(flags, 'd') && !has(flags, 's') {
		return missing(p)
	}
	from := set(sets[0])
	if has(flags, 'c') {
		var rest []byte
		for c := range 256 {
			if !bytes.Contains(from, []byte{byte(c)}) {
				rest = append(rest, byte(c))
			}
		}
		from = rest
	}
	to := from
	if len(sets) > 1 && !has(flags, 'd') {
		to = set(sets[1])
	}
	buf := make([]byte, 32<<10)
	last := -1
	for {
		n, err := p.Read(0, buf)
		out := make([]byte, 0, n)
		for _, c := range buf[:n] {
			at := bytes.IndexByte(from, c)
			if at >= 0 && has(flags, 'd') {
				continue
			}
			if at >= 0 && len(to) > 0 {
				c = to[min(at, len(to)-1)]
				if has(flags, 's') && int(c) == last {
					continue
				}
			}
			last = int(c)
			out = append(out, c)
		}
		if _, werr := p.FD(1).Write(out); werr != nil {
			return 1
		}
		if err != nil {
			return 0
		}
	}
}

// ranges reads a list like 1,3-5,7-.
func ranges(s string) (func(n int) bool, error) {
	var all [][2]int
	for part := range strings.SplitSeq(s, ",") {
		a, b, isRange := strings.Cut(part, "-")
		from, to := 1, 1<<30
		var err error
		if a != "" {
			if from, err = strconv.Atoi(a); err != nil {
				return nil, err
			}
		}
		switch {
		case !isRange:
			to = from
		case b != "":
			if to, err = strconv.Atoi(b); err != nil {
				return nil, err
			}
		}
		all = append(all, [2]int{from, to})
	}
	return func(n int) bool {
		return slices.ContainsFunc(all, func(r [2]int) bool { return n >= r[0] && n <= r[1] })
	}, nil
}

func cut(p *kernel.Proc) int {
	flags, names, ok := options(p, "d:f:c:b:s")
	if !ok {
		return 2
	}
	list, separator := flags['f'], "\t"
	if d, ok := flags['d']; ok {
		separator = d
	}
	for _, c := range []byte("cb") {
		if has(flags, c) {
			list, separator = flags[c], ""
		}
	}
	wanted, err := ranges(list)
	if err != nil {
		complain(p, "invalid list '%s'", list)
		return 1
	}
	return each(p, names, func(_ string, r io.Reader) error {
		return lines(r, func(_ int, line []byte) error {
			text := strings.TrimSuffix(string(line), "\n")
			if separator != "" && !strings.Contains(text, separator) {
				if has(flags, 's') {
					return nil
				}
				_, err := fmt.Fprintln(p.FD(1), text)
				return err
			}
			var out []string
			for i, field := range strings.Split(text, separator) {
				if wanted(i + 1) {
					out = append(out, field)
				}
			}
			_, err := fmt.Fprintln(p.FD(1), strings.Join(out, separator))
			return err
		})
	})
}

func sha256sum(p *kernel.Proc) int {
	return each(p, p.Args()[1:], func(name string, r io.Reader) error {
		h := sha256.New()
		if _, err := io.Copy(h, r); err != nil {
			return err
		}
		_, err := fmt.Fprintf(p.FD(1), "%x  %s\n", h.Sum(nil), name)
		return err
	})
}

// grep searches lines: -E and -F, -i -v -n -c -l -q -s -z -x -w -o, -e and -h.
func grep(p *kernel.Proc) int {
	flags, args, ok := options(p, "EFGivnclqszxwoe:hH")
	if !ok {
		return 2
	}
	pattern, given := flags['e']
	if !given {
		if len(args) == 0 {
			return 2
		}
		pattern, args = args[0], args[1:]
	}
	rx, err := expression(pattern, flags)
	if err != nil {
		complain(p, "%v", err)
		return 2
	}
	g := &grepping{p: p, flags: flags, rx: rx, named: len(args) > 1 && !has(flags, 'h') || has(flags, 'H')}
	status := each(p, args, g.file)
	switch {
	case g.found:
		return 0
	case status != 0 && !has(flags, 's'):
		return 2
	}
	return 1
}

func expression(pattern string, flags map[byte]string) (*regexp.Regexp, error) {
	switch {
	case has(flags, 'F'):
		pattern = regexp.QuoteMeta(pattern)
	case !has(flags, 'E'):
		// A basic expression has these the other way round.
		pattern = regexp.MustCompile(`\\?[(){}+?|]`).ReplaceAllStringFunc(pattern, func(s string) string {
			if s[0] == '\\' {
				return s[1:]
			}
			return `\` + s
		})
	}
	if has(flags, 'w') {
		pattern = `\b(?:` + pattern + `)\b`
	}
	if has(flags, 'x') {
		pattern = `^(?:` + pattern + `)$`
	}
	if has(flags, 'i') {
		pattern = "(?i)" + pattern
	}
	return regexp.Compile(pattern)
}

type grepping struct {
	p     *kernel.Proc
	flags map[byte]string
	rx    *regexp.Regexp
	named bool
	found bool
}

func (g *grepping) file(name string, r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	end := "\n"
	if has(g.flags, 'z') {
		end = "\x00"
	}
	matched := 0
	prefix := ""
	if g.named {
		prefix = name + ":"
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(data), end), end) {
		if len(data) == 0 || g.rx.MatchString(line) == has(g.flags, 'v') {
			continue
		}
		matched++
		g.found = true
		if has(g.flags, 'q') || has(g.flags, 'l') {
			break
		}
		if has(g.flags, 'c') {
			continue
		}
		at := prefix
		if has(g.flags, 'n') {
			at += strconv.Itoa(i+1) + ":"
		}
		out := []string{line}
		if has(g.flags, 'o') {
			out = g.rx.FindAllString(line, -1)
		}
		for _, text := range out {
			if _, err := io.WriteString(g.p.FD(1), at+text+end); err != nil {
				return err
			}
		}
	}
	switch {
	case has(g.flags, 'l') && matched > 0 && !has(g.flags, 'q'):
		_, err = fmt.Fprintln(g.p.FD(1), name)
	case has(g.flags, 'c'):
		_, err = fmt.Fprintf(g.p.FD(1), "%s%d\n", prefix, matched)
	}
	return err
}
