package rawcall

import "encoding/binary"

// The numbers of the system calls that cases make, on amd64.
const (
	Read        = 0
	Write       = 1
	Open        = 2
	MemoryMap   = 9
	Ioctl       = 16
	Dup         = 32
	Socket      = 41
	Connect     = 42
	Accept      = 43
	SendTo      = 44
	Bind        = 49
	Listen      = 50
	Unlink      = 87
	Chmod       = 90
	Ptrace      = 101
	Mknod       = 133
	SetPriority = 141
	Chroot      = 161
	Mount       = 165
	SetAffinity = 203
	KeyCtl      = 250
	SetIOPrio   = 251
	ChmodAt     = 268
	Unshare     = 272
	LimitOf     = 302 // prlimit64
	ProcessRead = 310
	RenameAt2   = 316
	IoUring     = 425
	PidfdOpen   = 434
	OpenAt2     = 437
	PidfdGetFD  = 438
)

// The families and types of sockets.
const (
	Unix     = 1
	Inet     = 2
	Stream   = 1
	Datagram = 2
)

// ConnectUnix connects to a unix socket; a name that begins with a NUL is an abstract one.
func ConnectUnix(name string) []Call {
	addr := append([]byte{Unix, 0}, name...)
	if name[0] != 0 {
		addr = append(addr, 0)
	}
	return connect(Unix, Stream, addr)
}

// ConnectInet connects a socket of a type to an IPv4 address.
func ConnectInet(kind int, ip [4]byte, port uint16) []Call {
	addr := binary.BigEndian.AppendUint16([]byte{Inet, 0}, port)
	return connect(Inet, kind, append(append(addr, ip[:]...), make([]byte, 8)...))
}

func connect(family, kind int, addr []byte) []Call {
	return []Call{
		{Number: Socket, Args: []Arg{Int(int64(family)), Int(int64(kind))}},
		{Number: Connect, Args: []Arg{Result(0), Bytes(addr), Int(int64(len(addr)))}},
	}
}
