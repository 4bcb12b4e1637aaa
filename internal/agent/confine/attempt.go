//go:build linux

package confine

import (
	"sync"
	"syscall"
)

// attempts are the connections on their way, by the caller's thread. A signal takes a
// caller out of its call, and often puts it back in: then the kernel asks again, for the
// same socket and address, while the first question may have connected it. The answer to
// the first that did not arrive is the answer to the second.
type attempts struct {
	mu    sync.Mutex
	byTID map[uint32]*attempt
}

// attempt is one of them. Its lock is held while something is done to the socket, and while
// the caller is answered, who may call again at once.
type attempt struct {
	cookie  uint64
	address string

	mu      sync.Mutex
	over    bool // another one has taken its place
	settled bool
	told    bool // the caller has its answer
	errno   syscall.Errno
}

// maxAttempts is the number from which those whose caller has died are dropped.
const maxAttempts = 2048

// begin makes the first try of an attempt, unless one before has settled what it asks.
func (s *attempts) begin(tid uint32, cookie uint64, address []byte, try func() (syscall.Errno, bool)) (*attempt, syscall.Errno) {
	a := &attempt{cookie: cookie, address: string(address)}
	a.mu.Lock()
	defer a.mu.Unlock()
	s.mu.Lock()
	before := s.byTID[tid]
	if s.byTID == nil || len(s.byTID) >= maxAttempts {
		s.byTID = map[uint32]*attempt{}
	}
	s.byTID[tid] = a
	s.mu.Unlock()
	if before != nil {
		before.mu.Lock()
		before.over = true
		if before.settled && !before.told && before.cookie == cookie && before.address == a.address {
			a.settled, a.errno = true, before.errno
		}
		before.mu.Unlock()
	}
	if !a.settled {
		a.errno, a.settled = try()
	}
	return a, a.errno
}

// again makes one more try, unless another attempt has taken its place.
func (a *attempt) again(try func() (syscall.Errno, bool)) (errno syscall.Errno, settled, over bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return 0, false, true
	}
	a.errno, a.settled = try()
	return a.errno, a.settled, false
}

// tell gives the caller its answer and forgets the attempt, unless the caller does not wait
// for it any more.
func (s *attempts) tell(tid uint32, a *attempt, answer func() bool) {
	a.mu.Lock()
	a.told = answer()
	a.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.told && s.byTID[tid] == a {
		delete(s.byTID, tid)
	}
}
