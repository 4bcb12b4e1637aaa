//go:build linux

package confine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// program is a filter in the making: instructions of classic BPF over the words of struct
// seccomp_data, and the places in it that jumps go to. All jumps go forward.
type program struct {
	code   []unix.SockFilter
	labels map[string]int
	jumps  []jump
}

// jump is a conditional jump whose distances are not known yet; an empty label is the
// next instruction.
type jump struct {
	at      int
	yes, no string
	farther bool // an unconditional one, which reaches everywhere
}

func newProgram() *program { return &program{labels: map[string]int{}} }

func (p *program) emit(code uint16, k uint32) {
	p.code = append(p.code, unix.SockFilter{Code: code, K: k})
}

// load puts the word at an offset of struct seccomp_data into the accumulator.
func (p *program) load(offset uint32) { p.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset) }

// and, xor change the accumulator.
func (p *program) and(k uint32) { p.emit(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, k) }
func (p *program) xor(k uint32) { p.emit(unix.BPF_ALU|unix.BPF_XOR|unix.BPF_K, k) }

// keep stores the accumulator in a cell of the filter's memory; orKept ors that cell into
// the accumulator.
func (p *program) keep(cell uint32) { p.emit(unix.BPF_ST, cell) }

func (p *program) orKept(cell uint32) {
	p.emit(unix.BPF_LDX|unix.BPF_W|unix.BPF_MEM, cell)
	p.emit(unix.BPF_ALU|unix.BPF_OR|unix.BPF_X, 0)
}

func (p *program) ret(action uint32) { p.emit(unix.BPF_RET|unix.BPF_K, action) }

// label names the next instruction.
func (p *program) label(name string) { p.labels[name] = len(p.code) }

// branch jumps by a comparison of the accumulator with k: unix.BPF_JEQ, JGE or JSET.
func (p *program) branch(comparison uint16, k uint32, yes, no string) {
	p.jumps = append(p.jumps, jump{at: len(p.code), yes: yes, no: no})
	p.emit(unix.BPF_JMP|comparison|unix.BPF_K, k)
}

// jumpTo jumps always.
func (p *program) jumpTo(label string) {
	p.jumps = append(p.jumps, jump{at: len(p.code), yes: label, farther: true})
	p.emit(unix.BPF_JMP|unix.BPF_JA, 0)
}

// assemble returns the finished filter. An error is a mistake of who wrote it.
func (p *program) assemble() ([]unix.SockFilter, error) {
	distance := func(j jump, label string, most int) (int, error) {
		if label == "" {
			return 0, nil
		}
		to, ok := p.labels[label]
		d := to - j.at - 1
		if !ok || d < 0 || d > most {
			return 0, fmt.Errorf("filter: the jump at %d cannot reach %q", j.at, label)
		}
		return d, nil
	}
	for _, j := range p.jumps {
		most := 255
		if j.farther {
			most = len(p.code)
		}
		yes, err := distance(j, j.yes, most)
		if err != nil {
			return nil, err
		}
		no, err := distance(j, j.no, most)
		if err != nil {
			return nil, err
		}
		if j.farther {
			p.code[j.at].K = uint32(yes)
			continue
		}
		p.code[j.at].Jt, p.code[j.at].Jf = uint8(yes), uint8(no)
	}
	return p.code, nil
}
