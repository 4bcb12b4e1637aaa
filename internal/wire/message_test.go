package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// throughJSON is what arrives at the other side.
func throughJSON[T any](t *testing.T, in T) (out T) {
	t.Helper()
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Code, path, cause and hint of an error cross the wire, and errors.Is holds on the
// other side for what callers ask about.
func TestErrorRoundTrip(t *testing.T) {
	tests := []struct {
		name string
		in   error
		want error
		code spec.Code
		path string
		text string
	}{
		{"a file's", &spec.Error{Code: spec.CodeFileNotFound, Path: "/a\xff\n", Err: syscall.ENOENT}, fs.ErrNotExist, spec.CodeFileNotFound, "/a\xff\n", "no such file or directory"},
		{"without a cause", &spec.Error{Code: spec.CodeIsDirectory, Path: "d"}, spec.ErrIsDirectory, spec.CodeIsDirectory, "d", ""},
		{"wrapped", fmt.Errorf("outer: %w", &spec.Error{Code: spec.CodeTooLarge, Err: errors.New("inner")}), spec.ErrTooLarge, spec.CodeTooLarge, "", "inner"},
		{"a start that finds nothing", &spec.Error{Code: spec.CodeStartFailed, Err: &fs.PathError{Op: "exec", Path: "x", Err: syscall.ENOENT}}, fs.ErrNotExist, spec.CodeStartFailed, "", "exec x: no such file or directory"},
		{"a start by name", &spec.Error{Code: spec.CodeStartFailed, Err: fmt.Errorf("x: %w", fs.ErrNotExist)}, fs.ErrNotExist, spec.CodeStartFailed, "", "x: file does not exist"},
		{"a start without permission", &spec.Error{Code: spec.CodeStartFailed, Err: syscall.EACCES}, fs.ErrPermission, spec.CodeStartFailed, "", "permission denied"},
		{"a plain one", errors.New("plain"), spec.ErrInternal, spec.CodeInternal, "", "plain"},
		{"a plain errno", syscall.EPERM, fs.ErrPermission, spec.CodeInternal, "", "operation not permitted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := throughJSON(t, wire.FromError(tt.in)).Spec()
			if !errors.Is(got, tt.want) || got.Code != tt.code || got.Path != tt.path {
				t.Errorf("%+v, want code %s, path %q, errors.Is(%v)", got, tt.code, tt.path, tt.want)
			}
			if text := fmt.Sprint(got.Err); tt.text != "" && text != tt.text || tt.text == "" && got.Err != nil {
				t.Errorf("cause %v, want %q", got.Err, tt.text)
			}
		})
	}
	if wire.FromError(nil) != nil {
		t.Error("no error becomes one")
	}
	hinted := throughJSON(t, wire.FromError(&spec.Error{Code: spec.CodeInvalid, Hint: "do this"})).Spec()
	if spec.HintOf(hinted) != "do this" {
		t.Errorf("the hint is %q", spec.HintOf(hinted))
	}
}

// A code that this side does not know is never taken for success, and what a guest
// writes is cut.
func TestErrorFromAnUntrustedGuest(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	e := (&wire.Error{Code: "ok", Text: long, Path: wire.Bytes(long), Hint: long, Errno: -5}).Spec()
	if e.Code != spec.CodeInternal {
		t.Errorf("an unknown code has become %q", e.Code)
	}
	if len(e.Err.Error()) > 5000 || len(e.Path) > 5000 || len(e.Hint) > 5000 {
		t.Errorf("kept %d bytes of text, %d of path, %d of hint", len(e.Err.Error()), len(e.Path), len(e.Hint))
	}
	empty := (&wire.Error{}).Spec()
	if empty.Code != spec.CodeInternal || empty.Error() == "" {
		t.Errorf("an empty error is %+v", empty)
	}
}

// A file's record crosses the wire byte for byte.
func TestFileInfoRoundTrip(t *testing.T) {
	in := files.Info{
		Name: "a\xff\nb", Size: 1 << 40, Mode: fs.ModeSymlink | fs.ModeSetuid | 0o751, ModTime: time.Unix(1700000000, 123456789),
		UID: 1000, GID: 65534, Links: 3, Target: "../\xfe",
	}
	record := throughJSON(t, wire.FromInfo(in))
	got, err := record.Files()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, got); diff != "" {
		t.Errorf("what comes back differs (-sent +got):\n%s", diff)
	}
}

// No listing may choose a host path: names that are none are refused.
func TestFileInfoRefuses(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "/a", "a/", "../x", "a\x00b", "//", strings.Repeat("x", 5000)} {
		if _, err := (&wire.FileInfo{Name: wire.Bytes(name)}).Files(); !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("name %.20q: %v", name, err)
		}
	}
	for _, name := range []string{"/", "...", "-", "\n", "\xff"} {
		if _, err := (&wire.FileInfo{Name: wire.Bytes(name)}).Files(); err != nil {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for _, record := range []wire.FileInfo{{Name: wire.Bytes("a"), Size: -1}, {Name: wire.Bytes("a"), Target: make([]byte, 5000)}} {
		if _, err := record.Files(); !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("%d bytes, a target of %d: %v", record.Size, len(record.Target), err)
		}
	}
}

// An exit record is refused where no kernel says such a thing.
func TestExitRecord(t *testing.T) {
	good := wire.Exit{
		Code: 137, Signal: 9, TimedOut: true, OOM: &spec.OOM{LimitBytes: 1 << 20, PeakBytes: 1 << 19, Hint: "h"}, Kill: "terminated", Survivors: []spec.Survivor{{PID: 5, Name: "x"}},
		StdoutBytes: 1, StderrBytes: 2, DurationNS: 3, UserNS: 4, SystemNS: 5, MaxRSSBytes: 6,
	}
	got, err := good.Spec()
	want := spec.Exit{
		Code: 137, Signal: 9, TimedOut: true, OOM: &spec.OOM{LimitBytes: 1 << 20, PeakBytes: 1 << 19, Hint: "h"}, Kill: spec.KillTerminated, Survivors: good.Survivors,
		StdoutBytes: 1, StderrBytes: 2, Duration: 3, UserTime: 4, SystemTime: 5, MaxRSSBytes: 6,
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, bad := range []wire.Exit{
		{Code: -2}, {Code: 256}, {Signal: -1}, {Signal: 65}, {StdoutBytes: -1}, {StderrBytes: -1}, {Survivors: make([]spec.Survivor, 65)},
	} {
		if _, err := bad.Spec(); !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if got, err := (&wire.Exit{Kill: "certainly"}).Spec(); err != nil || got.Kill != spec.KillUnknown {
		t.Errorf("an unknown outcome of a kill: %v, %v", got.Kill, err)
	}
}

// A reply is bounded in what it lists, and its error is the caller's.
func TestReadReply(t *testing.T) {
	read := func(r wire.Reply) (*wire.Reply, error) {
		data, err := messageBytes(r)
		if err != nil {
			t.Fatal(err)
		}
		return wire.ReadReply(strings.NewReader(string(data)))
	}
	full := make([]wire.FileInfo, wire.ListBatch)
	for i := range full {
		full[i].Name = []byte(strings.Repeat("\xff", 255))
		full[i].Target = []byte(strings.Repeat("x", 200))
	}
	if got, err := read(wire.Reply{Entries: full}); err != nil || len(got.Entries) != wire.ListBatch {
		t.Errorf("a full batch: %v", err)
	}
	if _, err := read(wire.Reply{Entries: append(full, wire.FileInfo{Name: []byte("x")})}); !errors.Is(err, wire.ErrProtocol) {
		t.Errorf("one entry more: %v", err)
	}
	if _, err := read(wire.Reply{Err: wire.FromError(spec.New(spec.CodeExists, "taken"))}); !errors.Is(err, spec.ErrExists) {
		t.Errorf("an error: %v", err)
	}
}

// What became of a command arrives whole, and what no kernel says is refused.
func TestExitBounds(t *testing.T) {
	want := spec.Exit{Code: 143, Signal: 15, TimedOut: true, NoOutput: true, StdoutBytes: 3, Duration: 4, UserTime: 5, SystemTime: 6, MaxRSSBytes: 7}
	in := wire.Exit{Code: 143, Signal: 15, TimedOut: true, NoOutput: true, StdoutBytes: 3, DurationNS: 4, UserNS: 5, SystemNS: 6, MaxRSSBytes: 7}
	out := throughJSON(t, in)
	if got, err := out.Spec(); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, -want +got:\n%s", err, cmp.Diff(want, got))
	}
	for name, bad := range map[string]wire.Exit{
		"a code": {Code: 256}, "a signal": {Signal: 65}, "silence without a timeout": {NoOutput: true},
		"a duration": {DurationNS: -1}, "user time": {UserNS: -1}, "system time": {SystemNS: -1}, "memory": {MaxRSSBytes: -1}, "bytes": {StdoutBytes: -1},
	} {
		if got, err := bad.Spec(); err == nil {
			t.Errorf("%s: %+v is taken", name, got)
		}
	}
}

// Every limit crosses the wire to the last bit, and a umask of nothing is not no umask.
func TestExecRequestSetup(t *testing.T) {
	none := uint32(0)
	in := wire.ExecRequest{ID: "i", User: "a:b", Umask: &none, Rlimits: map[string]uint64{"as": spec.RlimitInfinity, "cpu": spec.RlimitInfinity - 1}, NoOutputMS: 9}
	if got := throughJSON(t, in); !cmp.Equal(got, in) {
		t.Errorf("-want +got:\n%s", cmp.Diff(in, got))
	}
}
