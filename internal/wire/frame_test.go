package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// frame is one frame as bytes, whatever its length says.
func frame(kind byte, length uint32, payload string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind}, length)
	return append(b, payload...)
}

// A message comes back as it was sent, alone or among others, however the stream
// is cut into reads.
func TestMessageRoundTrip(t *testing.T) {
	var buf bytes.Buffer
	sent := []wire.Request{
		{Op: wire.OpPing},
		{Op: wire.OpStat, File: &wire.FileRequest{Name: wire.Bytes("a\xff\n")}},
		{Op: wire.OpExec, Exec: &wire.ExecRequest{Args: []wire.Bytes{[]byte(strings.Repeat("x", 1<<20))}}},
	}
	for _, m := range sent {
		if err := wire.WriteMessage(&buf, m); err != nil {
			t.Fatal(err)
		}
	}
	r := iotest.HalfReader(&buf)
	for i, want := range sent {
		var got wire.Request
		if err := wire.ReadMessage(r, &got, 0); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if got.Op != want.Op {
			t.Errorf("message %d: op %q, want %q", i, got.Op, want.Op)
		}
		switch {
		case want.File != nil && string(got.File.Name) != string(want.File.Name):
			t.Errorf("message %d: name %q, want %q", i, got.File.Name, want.File.Name)
		case want.Exec != nil && !bytes.Equal(got.Exec.Args[0], want.Exec.Args[0]):
			t.Errorf("message %d: the argument differs", i)
		}
	}
	if err := wire.ReadMessage(r, new(wire.Request), 0); err != io.EOF {
		t.Errorf("behind the last message: %v, want io.EOF", err)
	}
}

// What a peer sends is bounded and parsed strictly: a frame that is too long, of
// another kind, or no JSON is a protocol violation before its payload costs memory.
func TestReadMessageRefuses(t *testing.T) {
	tests := []struct {
		name  string
		input []byte
		limit int
		want  error
	}{
		{"nothing", nil, 0, io.EOF},
		{"half a header", []byte("J\x00\x00"), 0, io.ErrUnexpectedEOF},
		{"half a payload", frame('J', 10, `{"op"`), 0, io.ErrUnexpectedEOF},
		{"a payload that never comes", frame('J', wire.MaxMessageBytes, ""), 0, io.ErrUnexpectedEOF},
		{"too long", frame('J', wire.MaxMessageBytes+1, ""), 0, wire.ErrProtocol},
		{"far too long", frame('J', 1<<32-1, ""), 0, wire.ErrProtocol},
		{"over the caller's limit", frame('J', 11, `{"op":"xx"}`), 10, wire.ErrProtocol},
		{"an unknown kind", frame('X', 2, "{}"), 0, wire.ErrProtocol},
		{"data", frame('D', 2, "{}"), 0, wire.ErrProtocol},
		{"too much data", frame('D', wire.MaxDataBytes+1, ""), 0, wire.ErrProtocol},
		{"an end", frame('E', 0, ""), 0, wire.ErrProtocol},
		{"an end with a payload", frame('E', 1, "x"), 0, wire.ErrProtocol},
		{"no JSON", frame('J', 3, "{]}"), 0, wire.ErrProtocol},
		{"JSON of another shape", frame('J', 6, `{"op":`+`}`), 0, wire.ErrProtocol},
		{"a number for an op", frame('J', 8, `{"op":1}`), 0, wire.ErrProtocol},
		{"no payload at all", frame('J', 0, ""), 0, wire.ErrProtocol},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := wire.ReadMessage(iotest.OneByteReader(bytes.NewReader(tt.input)), new(wire.Request), tt.limit)
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
	if err := wire.WriteMessage(io.Discard, strings.Repeat("x", wire.MaxMessageBytes)); !errors.Is(err, wire.ErrProtocol) {
		t.Errorf("writing a message over the limit: %v", err)
	}
}

// Data comes back byte for byte, in chunks of at most what was asked for.
func TestDataRoundTrip(t *testing.T) {
	content := []byte(strings.Repeat("0123456789abcdef", 50_000))
	for _, chunk := range []int{0, 1000, wire.MaxDataBytes, 1 << 30} {
		var buf bytes.Buffer
		n, err := wire.WriteData(&buf, content, chunk)
		if n != len(content) || err != nil {
			t.Fatalf("chunk %d: wrote %d, %v", chunk, n, err)
		}
		if err := wire.WriteEnd(&buf); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(iotest.HalfReader(wire.NewDataReader(iotest.HalfReader(&buf))))
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("chunk %d: %d bytes came back, %v", chunk, len(got), err)
		}
	}
}

// WriteData counts what was written in whole frames, so that a sender knows what a
// broken stream may have swallowed.
func TestWriteDataCountsWholeFrames(t *testing.T) {
	w := &limitedWriter{left: 2*(5+100) + 50}
	n, err := wire.WriteData(w, make([]byte, 1000), 100)
	if n != 200 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("wrote %d, %v; want 200 and the writer's error", n, err)
	}
}

type limitedWriter struct{ left int }

func (w *limitedWriter) Write(p []byte) (int, error) {
	if len(p) > w.left {
		return w.left, io.ErrClosedPipe
	}
	w.left -= len(p)
	return len(p), nil
}

// A stream that is cut, at any byte, never looks complete.
func TestDataReaderNeverTakesACutForTheEnd(t *testing.T) {
	var buf bytes.Buffer
	if _, err := wire.WriteData(&buf, []byte("some bytes of data"), 5); err != nil {
		t.Fatal(err)
	}
	if err := wire.WriteEnd(&buf); err != nil {
		t.Fatal(err)
	}
	whole := buf.Bytes()
	for cut := range whole {
		for _, r := range []io.Reader{bytes.NewReader(whole[:cut]), iotest.DataErrReader(bytes.NewReader(whole[:cut]))} {
			d := wire.NewDataReader(r)
			if _, err := io.ReadAll(d); err != io.ErrUnexpectedEOF {
				t.Errorf("cut at %d of %d: %v, want io.ErrUnexpectedEOF", cut, len(whole), err)
			}
			if n, err := d.Read(make([]byte, 1)); n != 0 || err != io.ErrUnexpectedEOF {
				t.Errorf("cut at %d, read again: %d, %v", cut, n, err)
			}
		}
	}
}

// An error among the data is the peer's; anything else there is a violation.
func TestDataReaderErrors(t *testing.T) {
	failure, err := messageBytes(wire.Reply{Err: wire.FromError(&spec.Error{Code: spec.CodeNoSpace, Path: "/f"})})
	if err != nil {
		t.Fatal(err)
	}
	success, err := messageBytes(wire.Reply{Done: true})
	if err != nil {
		t.Fatal(err)
	}
	data := frame('D', 4, "data")
	tests := []struct {
		name string
		tail []byte
		want error
	}{
		{"an error", failure, spec.ErrNoSpace},
		{"a message without an error", success, wire.ErrProtocol},
		{"a message that is none", frame('J', 1, "x"), wire.ErrProtocol},
		{"a message of 600 KiB", frame('J', 600<<10, ""), wire.ErrProtocol},
		{"an unknown kind", frame(0, 0, ""), wire.ErrProtocol},
		{"a frame that is too long", frame('D', wire.MaxDataBytes+1, ""), wire.ErrProtocol},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := wire.NewDataReader(bytes.NewReader(append(bytes.Clone(data), tt.tail...)))
			got, err := io.ReadAll(d)
			if string(got) != "data" || !errors.Is(err, tt.want) {
				t.Errorf("%q, %v; want the data, then %v", got, err, tt.want)
			}
			if _, again := d.Read(make([]byte, 1)); !errors.Is(again, tt.want) {
				t.Errorf("read again: %v", again)
			}
		})
	}
}

// Data frames without data are a breach: a flood of them would keep a reader busy who
// gets nothing. An empty read takes nothing.
func TestDataReaderEmptyFrames(t *testing.T) {
	d := wire.NewDataReader(bytes.NewReader(append(frame('D', 1, "a"), frame('D', 0, "")...)))
	if n, err := d.Read(nil); n != 0 || err != nil {
		t.Errorf("an empty read: %d, %v", n, err)
	}
	if got, err := io.ReadAll(d); string(got) != "a" || !errors.Is(err, wire.ErrProtocol) {
		t.Errorf("%q, %v", got, err)
	}
}

// A message that lists more than any message does is refused before memory is made for
// it; one that lists as much as is allowed, and one whose texts look like lists, pass.
func TestMessageShape(t *testing.T) {
	list := func(n int) string { return "[" + strings.Repeat("{},", n-1) + "{}]" }
	for name, tt := range map[string]struct {
		text    string
		refused bool
	}{
		"as many as a list has":      {`{"entries":` + list(wire.ListBatch) + `}`, false},
		"too many entries":           {`{"entries":` + list(5000) + `}`, true},
		"too many jobs":              {`{"jobs":[` + strings.Repeat("0,", 100_000) + `0]}`, true},
		"too many in two lists":      {`{"jobs":` + list(600) + `,"entries":` + list(600) + `}`, true},
		"too many deep in it":        {`{"jobs":[{"args":[` + strings.Repeat(`"",`, 100_000) + `""]}]}`, true},
		"a text that looks like one": {`{"err":{"text":"` + strings.Repeat(`\"[{,,`, 10_000) + `"}}`, false},
		"an open text":               {`{"err":{"text":"` + strings.Repeat(`,[`, 10_000), true},
		"brackets":                   {strings.Repeat("[", 500_000), true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := wire.ReadReply(bytes.NewReader(frame('J', uint32(len(tt.text)), tt.text)))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, again := wire.ReadReply(bytes.NewReader(frame('J', uint32(len(tt.text)), tt.text)))
			runtime.ReadMemStats(&after)
			if refused := errors.Is(err, wire.ErrProtocol); refused != tt.refused || fmt.Sprint(again) != fmt.Sprint(err) {
				t.Errorf("%v, then %v", err, again)
			}
			if cost := after.TotalAlloc - before.TotalAlloc; cost > 8<<20 {
				t.Errorf("%d bytes of text cost %d of memory", len(tt.text), cost)
			}
		})
	}
}

func messageBytes(v any) ([]byte, error) {
	var buf bytes.Buffer
	err := wire.WriteMessage(&buf, v)
	return buf.Bytes(), err
}
