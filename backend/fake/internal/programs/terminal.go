package programs

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/backend/fake/internal/kernel"
	"github.com/berth-dev/berth/backend/fake/internal/line"
)

// tty prints the name of the terminal that is the input: tty [-s].
func tty(p *kernel.Proc) int {
	flags, _, ok := options(p, "s")
	if !ok {
		return 2
	}
	name, status := "not a tty", 1
	if p.Terminal(0) != nil {
		name, status = kernel.TTYName, 0
	}
	if !has(flags, 's') {
		fmt.Fprintln(p.FD(1), name)
	}
	return status
}

// settings are what stty can turn on, or off with a "-" before the name.
var settings = []struct {
	name string
	mode line.Mode
}{
	{"echo", line.Echo},
	{"icanon", line.Canonical},
	{"isig", line.Signals},
	{"icrnl", line.CarriageReturn},
	{"onlcr", line.Newline},
	{"opost", line.Newline},
	{"cooked", line.Sane &^ line.Echo},
}

// stty prints or changes what the terminal that is the input does: stty [-a | -g | size |
// setting...]. What -g prints is a setting.
func stty(p *kernel.Proc) int {
	t := p.Terminal(0)
	if t == nil {
		complain(p, "'standard input': Inappropriate ioctl for device")
		return 1
	}
	args, mode := p.Args()[1:], t.Mode()
	if len(args) == 0 {
		args = []string{"-a"}
	}
	for _, arg := range args {
		switch arg {
		case "-a":
			fmt.Fprintf(p.FD(1), "rows %d; columns %d;\n%s\n", t.Size().Rows, t.Size().Cols, describe(mode))
			continue
		case "-g":
			fmt.Fprintf(p.FD(1), "%x:\n", uint8(mode))
			continue
		case "size":
			fmt.Fprintln(p.FD(1), t.Size().Rows, t.Size().Cols)
			continue
		}
		var ok bool
		if mode, ok = setting(mode, arg); !ok {
			complain(p, "invalid argument '%s'", arg)
			return 1
		}
	}
	t.SetMode(mode)
	return 0
}

// setting is a mode with one setting changed.
func setting(mode line.Mode, arg string) (line.Mode, bool) {
	if saved, ok := strings.CutSuffix(arg, ":"); ok {
		n, err := strconv.ParseUint(saved, 16, 8)
		return line.Mode(n) & line.Sane, err == nil
	}
	switch arg {
	case "sane":
		return line.Sane, true
	case "raw":
		arg = "-cooked"
	case "-raw":
		arg = "cooked"
	}
	name, off := strings.CutPrefix(arg, "-")
	for _, s := range settings {
		switch {
		case s.name != name:
		case off:
			return mode &^ s.mode, true
		default:
			return mode | s.mode, true
		}
	}
	return mode, false
}

// describe is a mode in the words of stty.
func describe(mode line.Mode) string {
	var words []string
	for _, s := range settings[:len(settings)-2] { // each once
		word := s.name
		if mode&s.mode == 0 {
			word = "-" + word
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}
