//go:build linux

package port

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/internal/agent/proc"
	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
)

// list tells what listens in the place.
func (v *Server) list(s *wire.Stream) error {
	for batch := range slices.Chunk(v.ports(), wire.PortBatch) {
		if err := stream.Reply(s, &wire.Reply{Ports: batch}); err != nil {
			return err
		}
	}
	return stream.Reply(s, &wire.Reply{Done: true})
}

// ports are the sockets of the place that listen, in the order of their addresses.
func (v *Server) ports() []wire.Port {
	found := map[uint64]*wire.Port{}
	for _, table := range []struct {
		name string
		read func(*bufio.Scanner, map[uint64]*wire.Port)
	}{{"tcp", readTCP}, {"tcp6", readTCP}, {"unix", readUnix}} {
		if f, err := os.Open("/proc/self/net/" + table.name); err == nil {
			table.read(bufio.NewScanner(f), found)
			f.Close()
		}
	}
	delete(found, v.ownInode)
	v.holders(found)
	var out []wire.Port
	for _, p := range found {
		if p.PID > 0 || v.scope == OfNetwork {
			out = append(out, *p)
		}
	}
	slices.SortFunc(out, func(a, b wire.Port) int {
		return cmp.Or(cmp.Compare(a.Network, b.Network), bytes.Compare(a.Address, b.Address), cmp.Compare(a.PID, b.PID))
	})
	return out[:min(len(out), wire.MaxPorts)]
}

// maxSockets is how many sockets that listen are looked at in one namespace.
const maxSockets = 1 << 16

// readTCP reads /proc/net/tcp or tcp6.
func readTCP(lines *bufio.Scanner, found map[uint64]*wire.Port) {
	const local, state, inode, listens = 1, 3, 9, "0A"
	for lines.Scan() && len(found) < maxSockets {
		fields := strings.Fields(lines.Text())
		if len(fields) <= inode || fields[state] != listens {
			continue
		}
		address, ok := parseAddress(fields[local])
		number, err := strconv.ParseUint(fields[inode], 10, 64)
		if !ok || err != nil {
			continue
		}
		network := "tcp6"
		if address.Addr().Is4() {
			network = "tcp4"
		}
		found[number] = &wire.Port{Network: network, Address: wire.Bytes(address.String())}
	}
}

// parseAddress reads an address as the kernel prints it: the words of its memory, and the
// port.
func parseAddress(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	var memory []byte
	for ; err == nil && len(host) >= 8; host = host[8:] {
		var word uint64
		word, err = strconv.ParseUint(host[:8], 16, 32)
		memory = binary.NativeEndian.AppendUint32(memory, uint32(word))
	}
	addr, ok := netip.AddrFromSlice(memory)
	return netip.AddrPortFrom(addr, uint16(number)), ok && err == nil && host == ""
}

// readUnix reads /proc/net/unix. A name may hold a newline, so a line that is no entry
// is more of the name before.
func readUnix(lines *bufio.Scanner, found map[uint64]*wire.Port) {
	var last *wire.Port
	lines.Scan() // the headings
	for lines.Scan() && len(found) < maxSockets {
		number, name, listens, ok := parseUnix(lines.Text())
		switch {
		case !ok && last != nil:
			last.Address = append(append(last.Address, '\n'), lines.Bytes()...)
		case ok && listens && name != "":
			last = &wire.Port{Network: "unix", Address: wire.Bytes(name)}
			found[number] = last
		case ok:
			last = nil
		}
	}
}

// parseUnix reads one entry: "pointer: references protocol flags type state inode name".
func parseUnix(line string) (inode uint64, name string, listens, ok bool) {
	const accepts, streams = 1 << 16, 1
	var fields [7]string
	for i := range fields {
		fields[i], line, _ = strings.Cut(strings.TrimLeft(line, " "), " ")
	}
	flags, err1 := strconv.ParseUint(fields[3], 16, 32)
	kind, err2 := strconv.ParseUint(fields[4], 16, 16)
	inode, err3 := strconv.ParseUint(fields[6], 10, 64)
	ok = strings.HasSuffix(fields[0], ":") && err1 == nil && err2 == nil && err3 == nil
	return inode, line, flags&accepts != 0 && kind == streams, ok
}

// ownName is the name of the guest's own process, of which the kernel knows only the file
// that it was started from.
const ownName = "berth"

// holders finds which process of the place holds each socket.
func (v *Server) holders(sockets map[uint64]*wire.Port) {
	left := len(sockets)
	for _, pid := range v.processes() {
		if left == 0 {
			return
		}
		dir := "/proc/" + strconv.Itoa(pid)
		fds, err := os.Open(dir + "/fd")
		if err != nil {
			continue // it has ended, or is another user's
		}
		names, _ := fds.Readdirnames(-1)
		fds.Close()
		for _, fd := range names {
			link, _ := os.Readlink(dir + "/fd/" + fd)
			digits, ok := strings.CutPrefix(link, "socket:[")
			inode, err := strconv.ParseUint(strings.TrimSuffix(digits, "]"), 10, 64)
			if p := sockets[inode]; ok && err == nil && p != nil && p.PID == 0 {
				name, _ := os.ReadFile(dir + "/comm")
				p.PID, p.Name = pid, bytes.TrimSuffix(name, []byte("\n"))
				if pid == os.Getpid() {
					p.Name = wire.Bytes(ownName)
				}
				left--
			}
		}
	}
}

// processes are those of the place, the oldest number first.
func (v *Server) processes() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			all = append(all, pid)
		}
	}
	slices.Sort(all)
	if v.scope != OfDescendants {
		return all
	}
	children := map[int][]int{}
	for _, pid := range all {
		if st, ok := proc.ReadStat(pid); ok {
			children[st.PPID] = append(children[st.PPID], pid)
		}
	}
	own := []int{os.Getpid()}
	for i := 0; i < len(own); i++ {
		own = append(own, children[own[i]]...)
	}
	slices.Sort(own)
	return own
}
