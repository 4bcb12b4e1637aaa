//go:build linux

package agent_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

func file(op wire.Op, f wire.FileRequest) *wire.Request { return &wire.Request{Op: op, File: &f} }

// write sends the whole body whatever the guest says meanwhile, as a host that does
// not look does.
func (h *host) write(name string, size int64, body []byte) error {
	h.t.Helper()
	s := h.open(file(wire.OpWrite, wire.FileRequest{Name: wire.Bytes(name), Size: size}))
	defer s.Close()
	if _, err := wire.WriteData(s, body, 0); err != nil {
		return err
	}
	if err := wire.WriteEnd(s); err != nil {
		return err
	}
	_, err := wire.ReadReply(s)
	return err
}

// Files are written, described, listed, read and moved; relative names begin at the
// workdir.
func TestFileOperations(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	_, body := numbers(3 << 20)
	if err := h.write("dir/a", int64(len(body)), body); err != nil {
		t.Fatalf("write: %v", err)
	}
	got, err := os.ReadFile(filepath.Join(p.workdir, "dir/a"))
	if err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes were written: %v", len(got), err)
	}
	s := h.open(file(wire.OpOpen, wire.FileRequest{Name: wire.Bytes("dir/a"), Offset: 5, Length: 100}))
	reply, err := wire.ReadReply(s)
	if err != nil || reply.Info.Size != int64(len(body)) {
		t.Fatalf("open: %+v, %v", reply, err)
	}
	part, err := io.ReadAll(wire.NewDataReader(s))
	s.Close()
	if err != nil || !bytes.Equal(part, body[5:105]) {
		t.Errorf("read: %q, %v", part, err)
	}
	for i := range 600 {
		if err := os.WriteFile(filepath.Join(p.workdir, "dir", fmt.Sprintf("f\n%d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = h.open(file(wire.OpList, wire.FileRequest{Name: wire.Bytes("dir")}))
	n := 0
	for {
		reply, err := wire.ReadReply(s)
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		n += len(reply.Entries)
		if reply.Done {
			break
		}
	}
	s.Close()
	if n != 601 {
		t.Errorf("%d entries", n)
	}
	for _, step := range []struct {
		req  *wire.Request
		code spec.Code
	}{
		{file(wire.OpStat, wire.FileRequest{Name: wire.Bytes("dir/a")}), ""},
		{file(wire.OpStat, wire.FileRequest{Name: wire.Bytes("nosuch")}), spec.CodeFileNotFound},
		{file(wire.OpMkdir, wire.FileRequest{Name: wire.Bytes("other")}), ""},
		{file(wire.OpMkdir, wire.FileRequest{Name: wire.Bytes("other")}), spec.CodeExists},
		{file(wire.OpRename, wire.FileRequest{Name: wire.Bytes("dir/a"), NewName: wire.Bytes("other/a")}), ""},
		{file(wire.OpRemove, wire.FileRequest{Name: wire.Bytes("dir")}), spec.CodeExists},
		{file(wire.OpRemove, wire.FileRequest{Name: wire.Bytes("dir"), Recursive: true}), ""},
		{&wire.Request{Op: wire.OpStat}, spec.CodeInvalid},
	} {
		if _, err := h.call(step.req); spec.CodeOf(err) != step.code {
			t.Errorf("%s: %v, want %q", step.req.Op, err, step.code)
		}
	}
}

// A refused write takes in what is still being sent, so that nobody waits for ever;
// one that is broken off leaves no trace.
func TestRefusedWrites(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	if err := os.Mkdir(filepath.Join(p.workdir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 4<<20)
	if err := h.write("d", int64(len(body)), body); spec.CodeOf(err) != spec.CodeIsDirectory {
		t.Errorf("onto a directory: %v", err)
	}
	if err := h.write("x", -1, body); spec.CodeOf(err) != spec.CodeInvalid {
		t.Errorf("a negative size: %v", err)
	}
	s := h.open(file(wire.OpWrite, wire.FileRequest{Name: wire.Bytes("cut"), Size: int64(len(body))}))
	if _, err := wire.WriteData(s, body[:1<<20], 0); err != nil {
		t.Fatal(err)
	}
	h.close()
	eventually(t, "no trace is left", func() bool {
		entries, err := os.ReadDir(p.workdir)
		return err == nil && len(entries) == 1
	})
}
