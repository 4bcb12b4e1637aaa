//go:build linux

package proc

import "sync"

// look is what /proc said at one moment. It is not changed once done is closed.
type look struct {
	done     chan struct{}
	children map[int][]Stat // by their parents
	err      error
}

// looks shares looks: whoever asks gets one that began after the question, and those who
// ask at the same time get the same. Many trees that are ended at once cost little more
// than one.
type looks struct {
	turn sync.Mutex // of the one who looks

	mu   sync.Mutex
	next *look // has not begun; nil: nobody waits for one
}

func (s *looks) take() *look {
	s.mu.Lock()
	l := s.next
	if l != nil {
		s.mu.Unlock()
		<-l.done
		return l
	}
	l = &look{done: make(chan struct{})}
	s.next = l
	s.mu.Unlock()

	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	s.next = nil
	s.mu.Unlock()
	procs, err := scan()
	l.children, l.err = byParent(procs), err
	close(l.done)
	return l
}

// byParent sorts processes by their parents.
func byParent(procs []Stat) map[int][]Stat {
	out := make(map[int][]Stat, len(procs))
	for _, p := range procs {
		out[p.PPID] = append(out[p.PPID], p)
	}
	return out
}
