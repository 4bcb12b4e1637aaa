package berth

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// naive is what headTail does, said plainly.
func naive(limit int, all []byte) (kept []byte, omitted int64) {
	if len(all) <= limit {
		return all, 0
	}
	head, tail := limit-limit/2, limit/2
	return append(bytes.Clone(all[:head]), all[len(all)-tail:]...), int64(len(all) - limit)
}

func FuzzHeadTail(f *testing.F) {
	f.Add(uint8(4), []byte("abc"), uint8(1))
	f.Add(uint8(5), []byte("abcdefghijkl"), uint8(3))
	f.Add(uint8(1), []byte("abcdef"), uint8(200))
	f.Fuzz(func(t *testing.T, limit uint8, data []byte, chunk uint8) {
		cap, step := int(limit)+1, int(chunk)+1
		h := newHeadTail(int64(cap))
		for rest := data; len(rest) > 0; {
			k := min(step, len(rest))
			if n, err := h.Write(rest[:k]); n != k || err != nil {
				t.Fatalf("write: %d, %v", n, err)
			}
			rest = rest[k:]
		}
		want, omitted := naive(cap, data)
		if !bytes.Equal(h.Bytes(), want) || h.Omitted() != omitted {
			t.Errorf("cap %d, %d bytes by %d: kept %q and omitted %d, want %q and %d", cap, len(data), step, h.Bytes(), h.Omitted(), want, omitted)
		}
	})
}

func TestHeadTailText(t *testing.T) {
	h := newHeadTail(6)
	io.WriteString(h, "abcdefghij")
	if got, want := string(h.Text()), "abc\n... omitting 4 bytes ...\nhij"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// FuzzPipe holds a pipe against the bytes that went in, for any sizes of reads and
// writes.
func FuzzPipe(f *testing.F) {
	f.Add(1, 1, 10)
	f.Add(pipeBytes, 100, 3*pipeBytes)
	f.Add(7_000, pipeBytes+1, 300_000)
	f.Fuzz(func(t *testing.T, writes, reads, total int) {
		if writes < 1 || reads < 1 || writes > 1<<18 || reads > 1<<18 || total < 0 || total > 1<<20 || total/writes > 1<<14 || total/reads > 1<<14 {
			t.Skip()
		}
		p := newPipe()
		data := []byte(strings.Repeat("a period of 23 letters.", total/23+1))[:total]
		go func() {
			for rest := data; len(rest) > 0; {
				k := min(writes, len(rest))
				p.Write(rest[:k])
				rest = rest[k:]
			}
			p.finish(nil)
		}()
		var got bytes.Buffer
		if _, err := io.CopyBuffer(struct{ io.Writer }{&got}, pipeReader{p}, make([]byte, reads)); err != nil || !bytes.Equal(got.Bytes(), data) {
			t.Errorf("%d bytes of %d, %v", got.Len(), len(data), err)
		}
	})
}

func TestPipeIsAReader(t *testing.T) {
	p := newPipe()
	io.WriteString(p, "some content")
	p.finish(nil)
	if err := iotest.TestReader(pipeReader{p}, []byte("some content")); err != nil {
		t.Error(err)
	}
}

// A pipe holds no more than its buffer: the writer waits for the reader.
func TestPipeIsBounded(t *testing.T) {
	p := newPipe()
	wrote := make(chan int, 1)
	go func() {
		n, _ := p.Write(make([]byte, 3*pipeBytes))
		wrote <- n
	}()
	if n, err := io.ReadFull(pipeReader{p}, make([]byte, pipeBytes)); err != nil {
		t.Fatal(n, err)
	}
	select {
	case n := <-wrote:
		t.Errorf("a write of %d bytes ended with %d after %d were read", 3*pipeBytes, n, pipeBytes)
	default:
	}
	pipeReader{p}.Close()
	if n := <-wrote; n < pipeBytes || n > 2*pipeBytes {
		t.Errorf("%d bytes were taken; want what was read and at most a buffer more", n)
	}
}
