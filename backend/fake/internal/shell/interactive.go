package shell

import (
	"io"

	"mvdan.cc/sh/v3/syntax"

	"github.com/berth-dev/berth/backend/fake/internal/kernel"
	"github.com/berth-dev/berth/spec"
)

// converse runs the input line by line, with a prompt before each, until it ends. ^C
// leaves what is run or typed, and TERM does nothing, as in any shell for people.
func (sh *shell) converse() int {
	sh.interactive = true
	for _, sig := range []spec.Signal{spec.SIGINT, spec.SIGQUIT, spec.SIGTERM} {
		sh.p.Handle(int(sig), kernel.Catch) // and not Ignore, which programs would inherit
	}
	text := ""
	for sh.flow != exiting {
		sh.flow = onward
		sh.prompt(text != "")
		line, err := sh.typed()
		switch {
		case sh.flow == interrupted:
			text = ""
			continue
		case err != nil:
			sh.run(text + line)
			return sh.leave()
		}
		if text += line; incomplete(text) {
			continue
		}
		sh.run(text)
		text = ""
	}
	return sh.leave()
}

// prompt asks for a line, or for more of what has been typed.
func (sh *shell) prompt(more bool) {
	name, text := "PS1", "# "
	if more {
		name, text = "PS2", "> "
	}
	if v := sh.vars[name]; v.Set {
		text = v.Str
	}
	_, _ = io.WriteString(sh.p.FD(2), text)
}

// typed reads a line with its end.
func (sh *shell) typed() (string, error) {
	var line []byte
	var b [1]byte
	for {
		n, err := sh.p.Read(0, b[:])
		if err == kernel.EINTR {
			if sh.runTraps(); sh.flow != onward {
				return "", nil
			}
			continue
		}
		if err != nil {
			return string(line), err
		}
		if line = append(line, b[:n]...); b[0] == '\n' {
			return string(line), nil
		}
	}
}

// incomplete reports whether text is the beginning of something.
func incomplete(text string) bool {
	_, err := parse(text)
	return syntax.IsIncomplete(err)
}
