//go:build linux

package confine

import "golang.org/x/sys/unix"

// abi holds the numbers of one system call interface.
type abi struct {
	arch uint32 // as AUDIT_ARCH says it
	// foreign is the first number that belongs to another interface of the same
	// architecture; 0: there is none.
	foreign uint32

	connect, listen, socket, socketpair  uint32
	clone, clone3, unshare, setns, ioctl uint32
	prctl                                uint32
	// Those of chmod's kind, and those that make a file with a mode; 0: there is none.
	chmod, fchmod, fchmodat             uint32
	creat, mknod, mknodat, open, openat uint32
	// prlimit64 and those that say how a process is scheduled: of scheduled the first
	// argument names the process.
	prlimit, setpriority, ioprioSet uint32
	scheduled                       []uint32
	// denied are refused with EPERM, absent with ENOSYS.
	denied, absent []uint32
}

// abis are what a kernel of each GOARCH runs: its own interface first.
var abis = map[string][]abi{
	"amd64": {x86_64, i386},
	"arm64": {aarch64, arm},
}

// The system calls that are the same everywhere.
const (
	ioUringSetup    = 425
	ioUringEnter    = 426
	ioUringRegister = 427
	sysClone3       = 435
	sysOpenat2      = 437
	sysFchmodat2    = 452
)

var (
	x86_64 = abi{
		arch: unix.AUDIT_ARCH_X86_64, foreign: 0x40000000, // x32
		connect: 42, listen: 50, socket: 41, socketpair: 53,
		clone: 56, clone3: sysClone3, unshare: 272, setns: 308, ioctl: 16, prctl: 157,
		chmod: 90, fchmod: 91, fchmodat: 268, creat: 85, mknod: 133, mknodat: 259, open: 2, openat: 257,
		prlimit: 302, setpriority: 141, ioprioSet: 251,
		scheduled: []uint32{142, 144, 203, 314}, // sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr
		denied: []uint32{
			321,           // bpf
			298,           // perf_event_open
			323,           // userfaultfd
			248, 249, 250, // add_key, request_key, keyctl
			304,      // open_by_handle_at
			246, 320, // kexec_load, kexec_file_load
			175, 313, 176, // init_module, finit_module, delete_module
			103, // syslog
		},
		absent: []uint32{ioUringSetup, ioUringEnter, ioUringRegister},
	}
	i386 = abi{
		arch:    unix.AUDIT_ARCH_I386,
		connect: 362, listen: 363, socket: 359, socketpair: 360,
		clone: 120, clone3: sysClone3, unshare: 310, setns: 346, ioctl: 54, prctl: 172,
		chmod: 15, fchmod: 94, fchmodat: 306, creat: 8, mknod: 14, mknodat: 297, open: 5, openat: 295,
		prlimit: 340, setpriority: 97, ioprioSet: 289,
		scheduled: []uint32{154, 156, 241, 351}, // as above
		denied: []uint32{
			357,           // bpf
			336,           // perf_event_open
			374,           // userfaultfd
			286, 287, 288, // add_key, request_key, keyctl
			342,           // open_by_handle_at
			283,           // kexec_load
			128, 350, 129, // init_module, finit_module, delete_module
			103, // syslog
		},
		absent: []uint32{ioUringSetup, ioUringEnter, ioUringRegister, 102 /* socketcall */},
	}
	aarch64 = abi{
		arch:    unix.AUDIT_ARCH_AARCH64,
		connect: 203, listen: 201, socket: 198, socketpair: 199,
		clone: 220, clone3: sysClone3, unshare: 97, setns: 268, ioctl: 29, prctl: 167,
		fchmod: 52, fchmodat: 53, mknodat: 33, openat: 56,
		prlimit: 261, setpriority: 140, ioprioSet: 30,
		scheduled: []uint32{118, 119, 122, 274}, // as above
		denied: []uint32{
			280,           // bpf
			241,           // perf_event_open
			282,           // userfaultfd
			217, 218, 219, // add_key, request_key, keyctl
			265,      // open_by_handle_at
			104, 294, // kexec_load, kexec_file_load
			105, 273, 106, // init_module, finit_module, delete_module
			116, // syslog
		},
		absent: []uint32{ioUringSetup, ioUringEnter, ioUringRegister},
	}
	arm = abi{
		arch:    unix.AUDIT_ARCH_ARM,
		connect: 283, listen: 284, socket: 281, socketpair: 288,
		clone: 120, clone3: sysClone3, unshare: 337, setns: 375, ioctl: 54, prctl: 172,
		chmod: 15, fchmod: 94, fchmodat: 333, creat: 8, mknod: 14, mknodat: 324, open: 5, openat: 322,
		prlimit: 369, setpriority: 97, ioprioSet: 314,
		scheduled: []uint32{154, 156, 241, 380}, // as above
		denied: []uint32{
			386,           // bpf
			364,           // perf_event_open
			388,           // userfaultfd
			309, 310, 311, // add_key, request_key, keyctl
			371,      // open_by_handle_at
			347, 401, // kexec_load, kexec_file_load
			128, 379, 129, // init_module, finit_module, delete_module
			103, // syslog
		},
		absent: []uint32{ioUringSetup, ioUringEnter, ioUringRegister},
	}
)
