//go:build linux

package agent_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/files"
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

// records takes all that a search sends.
func records[T any](t *testing.T, s *wire.Stream, next func() (T, error)) (all []T) {
	t.Helper()
	defer s.Close()
	for {
		one, err := next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
}

// Files are copied, given modes, searched for and in, and written many at a time.
func TestMoreFileOperations(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	s := h.open(&wire.Request{Op: wire.OpBatch, Batch: &wire.BatchRequest{}})
	var body []byte
	const many = 2000
	for i := range many {
		content := fmt.Sprintf("line one\nneedle %d\n", i)
		body = wire.AppendBatchFile(body, &files.BatchFile{Name: fmt.Sprintf("d/%d/f\xff", i), Size: int64(len(content))})
		body = append(body, content...)
	}
	if _, err := wire.WriteData(s, body, 1000); err != nil {
		t.Fatal(err)
	}
	if err := wire.WriteEnd(s); err != nil {
		t.Fatal(err)
	}
	landed, err := wire.ReadBatchReply(s)
	s.Close()
	if landed != many || err != nil {
		t.Fatalf("%d files landed, %v", landed, err)
	}
	s = h.open(&wire.Request{Op: wire.OpGlob, Glob: &wire.GlobRequest{Dir: wire.Bytes("d"), Pattern: wire.Bytes("*/f*"), Metadata: true}})
	matches := records(t, s, wire.NewMatchReader(wire.NewDataReader(s), true).Next)
	if len(matches) != many || matches[0].Path != "0/f\xff" || matches[0].Info.Size != int64(len("line one\nneedle 0\n")) || matches[0].Info.Mode != 0o644 {
		t.Errorf("%d matches, the first %+v", len(matches), matches[0])
	}
	s = h.open(&wire.Request{Op: wire.OpGrep, Grep: &wire.GrepRequest{Files: wire.GlobRequest{Dir: wire.Bytes("d")}, Pattern: wire.Bytes("needle [0-9]7$")}})
	lines := records(t, s, wire.NewLineReader(wire.NewDataReader(s), 100).Next)
	if len(lines) != 9 || lines[0].Path != "17/f\xff" || lines[0].Number != 2 || string(lines[0].Text) != "needle 17" || !lines[0].Match {
		t.Errorf("%+v", lines)
	}
	for _, step := range []struct {
		req  *wire.Request
		code spec.Code
	}{
		{file(wire.OpCopy, wire.FileRequest{Name: wire.Bytes("d"), NewName: wire.Bytes("copy"), Recursive: true}), ""},
		{file(wire.OpCopy, wire.FileRequest{Name: wire.Bytes("d"), NewName: wire.Bytes("copy"), Recursive: true}), spec.CodeExists},
		{file(wire.OpChmod, wire.FileRequest{Name: wire.Bytes("copy/5/f\xff"), Mode: 0o751}), ""},
		{file(wire.OpChmod, wire.FileRequest{Name: wire.Bytes("nosuch"), Mode: 0o751}), spec.CodeFileNotFound},
		{file(wire.OpChmod, wire.FileRequest{Name: wire.Bytes("copy"), Mode: -1}), spec.CodeInvalid},
		{file(wire.OpResolve, wire.FileRequest{Name: wire.Bytes("d/../copy/.")}), ""},
		{file(wire.OpResolve, wire.FileRequest{Name: wire.Bytes("nosuch")}), spec.CodeFileNotFound},
		{&wire.Request{Op: wire.OpGlob}, spec.CodeInvalid},
		{&wire.Request{Op: wire.OpGrep}, spec.CodeInvalid},
		{&wire.Request{Op: wire.OpBatch}, spec.CodeInvalid},
		{&wire.Request{Op: wire.OpCopy}, spec.CodeInvalid},
		{&wire.Request{Op: wire.OpGlob, Glob: &wire.GlobRequest{Pattern: wire.Bytes("[")}}, spec.CodeInvalid},
		{&wire.Request{Op: wire.OpGlob, Glob: &wire.GlobRequest{Dir: wire.Bytes("nosuch")}}, spec.CodeFileNotFound},
		{&wire.Request{Op: wire.OpGrep, Grep: &wire.GrepRequest{Pattern: wire.Bytes("(")}}, spec.CodeInvalid},
	} {
		if _, err := h.call(step.req); spec.CodeOf(err) != step.code {
			t.Errorf("%s: %v, want %q", step.req.Op, err, step.code)
		}
	}
	if info, err := os.Stat(filepath.Join(p.workdir, "copy/5/f\xff")); err != nil || info.Mode() != 0o751 {
		t.Errorf("%v, %v", info, err)
	}
}

// A batch that is broken off at any byte leaves nothing; what follows a refusal is
// taken in.
func TestBatchBrokenOff(t *testing.T) {
	p := startPlace(t)
	var body []byte
	for i := range 50 {
		body = append(wire.AppendBatchFile(body, &files.BatchFile{Name: fmt.Sprintf("f%d", i), Size: 5000}), make([]byte, 5000)...)
	}
	for _, n := range []int{0, 1, 10, 5000, len(body) / 2, len(body)} {
		h := p.dial("a")
		s := h.open(&wire.Request{Op: wire.OpBatch, Batch: &wire.BatchRequest{}})
		if _, err := wire.WriteData(s, body[:n], 0); err != nil {
			t.Fatal(err)
		}
		h.close() // without an end
		eventually(t, "no trace is left", func() bool {
			entries, err := os.ReadDir(p.workdir)
			return err == nil && len(entries) == 0
		})
	}
	h := p.dial("a")
	s := h.open(&wire.Request{Op: wire.OpBatch, Batch: &wire.BatchRequest{}})
	defer s.Close()
	bad := wire.AppendBatchFile(nil, &files.BatchFile{Name: "", Size: 4 << 20})
	if _, err := wire.WriteData(s, append(bad, make([]byte, 4<<20)...), 0); err != nil {
		t.Fatal(err)
	}
	if err := wire.WriteEnd(s); err != nil {
		t.Fatal(err)
	}
	if landed, err := wire.ReadBatchReply(s); landed != 0 || spec.CodeOf(err) != spec.CodeInvalidPath {
		t.Errorf("%d landed, %v", landed, err)
	}
}

// A search whose host hangs up ends, though nobody reads what it finds.
func TestSearchEndsWithItsHost(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	s := h.open(&wire.Request{Op: wire.OpGrep, Grep: &wire.GrepRequest{Files: wire.GlobRequest{Dir: wire.Bytes("/usr")}, Pattern: wire.Bytes("(.*e.*){3}")}})
	if _, err := wire.NewLineReader(wire.NewDataReader(s), 4096).Next(); err != nil {
		t.Fatal(err)
	}
	h.close()
	eventually(t, "the guest rests", func() bool {
		before := cpuTicks(t, p.cmd.Process.Pid)
		time.Sleep(300 * time.Millisecond)
		return cpuTicks(t, p.cmd.Process.Pid) <= before+1
	})
}

// cpuTicks is how long a process has run.
func cpuTicks(t *testing.T, pid int) (ticks int) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	for _, field := range strings.Fields(rest)[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return ticks
}

// A guest that keeps to a root serves no file outside it.
func TestWorkspaceRoot(t *testing.T) {
	root := t.TempDir()
	p := startPlace(t, "--workspace-root", root)
	h := p.dial("a")
	if err := h.write(root+"/d/f", 1, []byte("x")); err != nil {
		t.Error(err)
	}
	if err := h.write("f", 1, []byte("x")); spec.CodeOf(err) != spec.CodeInvalidPath {
		t.Errorf("a write into the workdir, which is outside: %v", err)
	}
	for _, name := range []string{"/etc/passwd", ".", root + "/../x"} {
		for _, op := range []wire.Op{wire.OpOpen, wire.OpStat, wire.OpList, wire.OpResolve, wire.OpChmod} {
			if _, err := h.call(file(op, wire.FileRequest{Name: wire.Bytes(name), Mode: 0o700})); spec.CodeOf(err) != spec.CodeInvalidPath {
				t.Errorf("%s %s: %v", op, name, err)
			}
		}
	}
}
