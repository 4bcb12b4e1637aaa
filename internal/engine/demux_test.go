package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func frame(stream byte, data string) string {
	var h [frameHeader]byte
	h[0] = stream
	binary.BigEndian.PutUint32(h[4:], uint32(len(data)))
	return string(h[:]) + data
}

// Only whole frames of stdout are delivered; whatever no engine sends is an error,
// never data, whether it comes at once or byte by byte.
func TestDemux(t *testing.T) {
	tests := []struct {
		name, in string
		want     string
		wantErr  error  // nil: io.EOF
		wantText string // in the error
	}{
		{name: "empty"},
		{name: "two frames", in: frame(1, "ab") + frame(1, "c"), want: "abc"},
		{name: "empty frames", in: frame(1, "") + frame(2, "") + frame(1, "x"), want: "x"},
		{name: "stderr is kept apart", in: frame(1, "a") + frame(2, "no such peer\n") + frame(1, "b"), want: "ab", wantErr: io.EOF, wantText: "no such peer"},
		{name: "the engine's error frame surfaces", in: frame(3, "exec failed"), wantErr: io.EOF, wantText: "exec failed"},
		{name: "control bytes are quoted", in: frame(2, "\x1b]52;c;x\a"), wantErr: io.EOF, wantText: `\x1b]52`},
		{name: "stream 0", in: frame(1, "a") + frame(0, "b"), want: "a", wantErr: errFraming, wantText: "stream 0"},
		{name: "stream 4", in: frame(4, "b"), wantErr: errFraming, wantText: "stream 4"},
		{name: "stream 255", in: frame(255, "b"), wantErr: errFraming},
		{name: "dirty padding", in: "\x01\x00\x01\x00\x00\x00\x00\x01x", wantErr: errFraming},
		{name: "oversized", in: "\x01\x00\x00\x00\xff\xff\xff\xffx", wantErr: errFraming, wantText: "4294967295"},
		{name: "just oversized", in: "\x01\x00\x00\x00\x01\x00\x00\x01x", wantErr: errFraming},
		{name: "cut header", in: frame(1, "a") + "\x01\x00\x00", want: "a", wantErr: io.ErrUnexpectedEOF},
		{name: "cut frame", in: frame(1, "abcd")[:frameHeader+2], want: "ab", wantErr: io.ErrUnexpectedEOF},
		{name: "cut before the data", in: frame(1, "abcd")[:frameHeader], wantErr: io.ErrUnexpectedEOF},
		{name: "cut stderr", in: frame(2, "abcd")[:frameHeader+2], wantErr: io.ErrUnexpectedEOF, wantText: "ab"},
		{name: "plain text", in: "OCI runtime exec failed: no such file", wantErr: errFraming},
	}
	for _, tt := range tests {
		for _, slow := range []bool{false, true} {
			var src io.Reader = strings.NewReader(tt.in)
			if slow {
				src = iotest.OneByteReader(src)
			}
			d := newDemux(src)
			got, err := io.ReadAll(d)
			if string(got) != tt.want {
				t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
			}
			if tt.wantErr == nil && err != nil || tt.wantErr != nil && tt.wantErr != io.EOF && !errors.Is(err, tt.wantErr) {
				t.Errorf("%s: error %v, want %v", tt.name, err, tt.wantErr)
			}
			if tt.wantText != "" && (err == nil || !strings.Contains(err.Error(), tt.wantText)) {
				t.Errorf("%s: error %v, want it to say %q", tt.name, err, tt.wantText)
			}
			if _, again := d.Read(make([]byte, 1)); err != nil && again != err {
				t.Errorf("%s: a second read gives %v, want %v", tt.name, again, err)
			}
		}
	}
}

// A flood on stderr costs no memory and holds up nothing.
func TestDemuxKeepsLittleOfStderr(t *testing.T) {
	flood := strings.Repeat(frame(2, strings.Repeat("e", 32<<10)), 200)
	d := newDemux(strings.NewReader(flood + frame(1, "ok")))
	buf := make([]byte, 16)
	n, err := d.Read(buf)
	if err != nil || string(buf[:n]) != "ok" {
		t.Fatalf("read %q, %v", buf[:n], err)
	}
	if len(d.notes) != maxNotes || cap(d.notes) > 2*maxNotes {
		t.Errorf("kept %d bytes (capacity %d), want %d", len(d.notes), cap(d.notes), maxNotes)
	}
}

func FuzzDemux(f *testing.F) {
	f.Add([]byte(frame(1, "ab") + frame(2, "x")))
	f.Add([]byte(frame(1, "abcd")[:10]))
	f.Fuzz(func(t *testing.T, in []byte) {
		fast, errFast := io.ReadAll(newDemux(bytes.NewReader(in)))
		slow, errSlow := io.ReadAll(newDemux(iotest.OneByteReader(bytes.NewReader(in))))
		if !bytes.Equal(fast, slow) || (errFast == nil) != (errSlow == nil) {
			t.Errorf("fragmentation changes the result: %q %v, %q %v", fast, errFast, slow, errSlow)
		}
		if len(fast) > len(in) {
			t.Error("more out than in")
		}
	})
}
