package wire

import (
	"io"
	"time"
)

// silenceIntervals is how many keep-alive intervals a guest waits for anything from
// its host: one probe may be late, and a host that missed several has given up, too.
const silenceIntervals = 4

// silence closes a connection on which nothing has come for a while. A host that is
// cut off without a word - no route, no power - leaves a relay on the guest's side
// that waits for ever, and a guest that counts a client that is gone.
type silence struct {
	io.ReadWriteCloser
	most  time.Duration
	timer *time.Timer
}

// endSilence wraps the guest's end of a connection whose host has promised to probe.
func endSilence(conn io.ReadWriteCloser, p Profile) io.ReadWriteCloser {
	if p.KeepAliveMS == 0 {
		return conn
	}
	most := silenceIntervals * time.Duration(p.KeepAliveMS) * time.Millisecond
	return &silence{conn, most, time.AfterFunc(most, func() { conn.Close() })}
}

func (s *silence) Read(p []byte) (int, error) {
	n, err := s.ReadWriteCloser.Read(p)
	if n > 0 {
		s.timer.Reset(s.most)
	}
	return n, err
}

func (s *silence) Close() error {
	s.timer.Stop()
	return s.ReadWriteCloser.Close()
}
