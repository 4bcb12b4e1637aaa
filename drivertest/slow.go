package drivertest

import (
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// SlowStream wraps a stream so that it behaves as badly as a transport may: reads
// and writes come in fragments, some are late, a few stall. The bytes are the same.
// What it does is the same in every run. Both directions are independent, and Close
// is passed on at once.
func SlowStream(rwc io.ReadWriteCloser) io.ReadWriteCloser {
	return &slowStream{
		rwc:   rwc,
		read:  whims{rng: rand.New(rand.NewPCG(1, 2))},
		write: whims{rng: rand.New(rand.NewPCG(3, 4))},
	}
}

type slowStream struct {
	rwc         io.ReadWriteCloser
	read, write whims
}

// whims decide about one direction.
type whims struct {
	mu  sync.Mutex // one call at a time: fragments of two never mix
	rng *rand.Rand
}

// next returns how many of at most n bytes go now, after having waited.
func (w *whims) next(n int) int {
	switch roll := w.rng.IntN(1000); {
	case roll == 0:
		time.Sleep(time.Duration(50+w.rng.IntN(150)) * time.Millisecond)
	case roll < 40:
		time.Sleep(time.Duration(w.rng.IntN(2000)) * time.Microsecond)
	}
	most := 1 << w.rng.IntN(16) // 1 byte is as likely as 32 KiB
	return min(n, 1+w.rng.IntN(most))
}

func (s *slowStream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return s.rwc.Read(p)
	}
	s.read.mu.Lock()
	defer s.read.mu.Unlock()
	return s.rwc.Read(p[:s.read.next(len(p))])
}

func (s *slowStream) Write(p []byte) (int, error) {
	s.write.mu.Lock()
	defer s.write.mu.Unlock()
	done := 0
	for done < len(p) {
		n, err := s.rwc.Write(p[done : done+s.write.next(len(p)-done)])
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func (s *slowStream) Close() error { return s.rwc.Close() }
