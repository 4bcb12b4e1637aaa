// Package rawcall makes tiny Linux programs out of system calls: what a case tries
// inside a place, in which there may be no interpreter, no library and no tool.
//
// A program makes its calls in order. It ends with status 0 when all of them have
// worked, and with the errno of the first that has not. It needs nothing but the kernel
// of an amd64 machine.
package rawcall

import (
	"bytes"
	"encoding/binary"
)

// Arch is the only architecture for which programs are made.
const Arch = "amd64"

// Call is one system call. Arguments that are not given are 0.
type Call struct {
	// Number is the system call's.
	Number int
	Args   []Arg
	// May says that the call may fail without ending the program.
	May bool
}

// Arg is an argument of a Call. The zero value is 0.
type Arg struct {
	value uint64
	data  []byte // with bytes: their address
	slot  int    // with result or address: of which call, plus one
	kind  kind
}

type kind int

const (
	literal kind = iota
	pointer
	result
	address
)

// Int is a number; a negative one is as the kernel takes it.
func Int(n int64) Arg { return Arg{value: uint64(n)} }

// Bytes is the address of a copy of p, which the call may write to.
func Bytes(p []byte) Arg { return Arg{kind: pointer, data: p} }

// String is the address of s with a NUL at its end.
func String(s string) Arg { return Bytes(append([]byte(s), 0)) }

// Result is what the call with this index has returned.
func Result(call int) Arg { return Arg{kind: result, slot: call} }

// Address is where the result of the call with this index is kept: eight bytes, little
// endian.
func Address(call int) Arg { return Arg{kind: address, slot: call} }

const (
	base       = 0x400000 // where the program is loaded
	headerSize = 64 + 56  // of an ELF file with one segment
	exitGroup  = 231
)

// Program returns the executable file that makes the calls.
func Program(calls ...Call) []byte {
	// The size of the code does not depend on the addresses in it: the first pass
	// finds out where the data begins.
	code, _ := assemble(calls, 0)
	code, data := assemble(calls, base+headerSize+uint64(len(code)))
	return append(header(len(code)+len(data)), append(code, data...)...)
}

// header is an ELF header and its one segment, which holds all and can be written.
func header(size int) []byte {
	var b bytes.Buffer
	b.Write([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	total := uint64(headerSize + size)
	for _, v := range []any{
		uint16(2), uint16(62), uint32(1), uint64(base + headerSize), uint64(64), uint64(0), // an executable for amd64, its entry, its table of segments
		uint32(0), uint16(64), uint16(56), uint16(1), uint16(64), uint16(0), uint16(0),
		uint32(1), uint32(7), uint64(0), uint64(base), uint64(base), total, total, uint64(4096),
	} {
		_ = binary.Write(&b, binary.LittleEndian, v) // a buffer takes all
	}
	return b.Bytes()
}

// The registers of the arguments, in order: rdi, rsi, rdx, r10, r8, r9. load moves a
// number into one, follow what it points to.
var registers = [6]struct{ load, follow []byte }{
	{[]byte{0x48, 0xbf}, []byte{0x48, 0x8b, 0x3f}},
	{[]byte{0x48, 0xbe}, []byte{0x48, 0x8b, 0x36}},
	{[]byte{0x48, 0xba}, []byte{0x48, 0x8b, 0x12}},
	{[]byte{0x49, 0xba}, []byte{0x4d, 0x8b, 0x12}},
	{[]byte{0x49, 0xb8}, []byte{0x4d, 0x8b, 0x00}},
	{[]byte{0x49, 0xb9}, []byte{0x4d, 0x8b, 0x09}},
}

// assemble returns the code of the calls, and the data that begins at an address: a
// slot for each result, then the bytes.
func assemble(calls []Call, at uint64) (code, data []byte) {
	data = make([]byte, 8*len(calls))
	number := func(opcode []byte, v uint64) {
		code = append(code, opcode...)
		code = binary.LittleEndian.AppendUint64(code, v)
	}
	system := []byte{0x0f, 0x05}
	for i, c := range calls {
		for n, r := range registers {
			var a Arg
			if n < len(c.Args) {
				a = c.Args[n]
			}
			switch a.kind {
			case pointer:
				number(r.load, at+uint64(len(data)))
				data = append(data, a.data...)
			case result:
				number(r.load, at+8*uint64(a.slot))
				code = append(code, r.follow...)
			case address:
				number(r.load, at+8*uint64(a.slot))
			default:
				number(r.load, a.value)
			}
		}
		number([]byte{0x48, 0xb8}, uint64(c.Number)) // rax
		code = append(code, system...)
		number([]byte{0x48, 0xbb}, at+8*uint64(i)) // rbx
		code = append(code, 0x48, 0x89, 0x03)      // [rbx] = rax
		if !c.May {
			code = append(code, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff) // compare rax with -4095
			code = append(code, 0x72, byte(3+3+10+len(system)))     // below: it has worked
			code = append(code, 0x48, 0x89, 0xc7, 0x48, 0xf7, 0xdf) // rdi = -rax
			number([]byte{0x48, 0xb8}, exitGroup)
			code = append(code, system...)
		}
	}
	number(registers[0].load, 0)
	number([]byte{0x48, 0xb8}, exitGroup)
	return append(code, system...), data
}
