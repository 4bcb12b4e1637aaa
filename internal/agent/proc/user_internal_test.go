//go:build linux

package proc

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/spec"
)

// Users and groups are read as what they are: files that anyone in the place may have
// written.
func TestLookupUser(t *testing.T) {
	dir := t.TempDir()
	passwd, group := filepath.Join(dir, "passwd"), filepath.Join(dir, "group")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(passwd, "root:x:0:0::/:/bin/sh\nbroken:x:7\nwrap:x:4294967296:0::/:\nnegative:x:-1:0::/:\nann:x:1000:1001::/:\nann:x:0:0::/:\n12:x:0:0::/:\nno newline:x:5:6::/:")
	write(group, "root:x:0:\nstaff:x:50:bob,ann\nann:x:1001:\nbad:x:x:ann\ntwice:x:50:ann\nlast:x:60:bobann,ann")
	tests := []struct {
		user string
		want *Identity
	}{
		{"ann", &Identity{1000, 1001, []uint32{50, 60}}},
		{"ann:staff", &Identity{1000, 50, []uint32{50, 60}}},
		{"ann:7", &Identity{1000, 7, []uint32{50, 60}}},
		{"1000", &Identity{1000, 1001, nil}},
		{"12", &Identity{12, 12, nil}}, // a number, whatever has it for a name
		{"77:staff", &Identity{77, 50, nil}},
		{"no newline", &Identity{5, 6, nil}},
		{"0", &Identity{0, 0, nil}},
		{"bob", nil},
		{"broken", nil},
		{"wrap", nil},
		{"negative", nil},
		{"-1", nil},
		{"4294967295", nil},
		{"ann:nobody", nil},
		{"ann:", nil},
		{"ann:bad", nil},
		{"", nil},
	}
	for _, tt := range tests {
		got, err := lookupUser(tt.user, passwd, group)
		if tt.want == nil {
			if spec.CodeOf(err) != spec.CodeInvalid {
				t.Errorf("%q: %+v, %v; want invalid", tt.user, got, err)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%q: %v, -want +got:\n%s", tt.user, err, diff)
		}
	}
	if got, err := lookupUser("9", filepath.Join(dir, "none"), group); err != nil || got.GID != 9 {
		t.Errorf("without a list of users: %+v, %v", got, err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	write(passwd, strings.Repeat("x", 1<<20)+"\nann:x:1:1::/:\n")
	for _, path := range []string{fifo, passwd, dir} {
		if got, err := lookupUser("ann", path, group); spec.CodeOf(err) != spec.CodeInvalid {
			t.Errorf("%s: %+v, %v; want invalid", path, got, err)
		}
	}
}

// What crosses the exec arrives as it was, and nothing else is taken.
func TestBecomeArguments(t *testing.T) {
	mask := uint32(0o027)
	l := &Launch{Path: "/bin/x", Args: []string{"", "-", "a b"}, Env: []string{"A=1", "B="}, Setup: Setup{Umask: &mask, Rlimits: map[string]uint64{"nofile": 3, "cpu": spec.RlimitInfinity}}}
	want := &becoming{umask: 0o027, rlimits: []rlimit{{0, spec.RlimitInfinity}, {7, 3}}, path: "/bin/x", argv: l.Args, env: l.Env}
	parcel, err := pack(l.parcel())
	if err != nil {
		t.Fatal(err)
	}
	defer parcel.Close()
	if _, err := parcel.WriteAt([]byte("x"), 0); err == nil {
		t.Error("what crosses can be changed")
	}
	words, err := unpack(parcel)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseBecome(words)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(becoming{}, rlimit{})); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	for _, args := range [][]string{
		nil,
		{"-", "-", "/x"},
		{"-", "-", "/x", "0"},
		{"-", "-", "/x", "2", "a"},
		{"1000", "-", "/x", "1", "a"},
		{"8", "-", "/x", "1", "a"},
		{"-", "16=1", "/x", "1", "a"},
		{"-", "1", "/x", "1", "a"},
		{"-", "1=-1", "/x", "1", "a"},
		{"-", "1=1,", "/x", "1", "a"},
	} {
		if got, err := parseBecome(args); err == nil {
			t.Errorf("%q is %+v", args, got)
		}
	}
}

// A report is untrusted: the program it comes from may have become another's prey.
func TestBecomeReports(t *testing.T) {
	l := &Launch{Args: []string{"x"}}
	for said, want := range map[string]spec.Code{
		"":                                 spec.CodeUnavailable,
		"ready\nexec 2\n":                  spec.CodeStartFailed,
		"ready\nexec 7\n":                  spec.CodeTooLarge,
		"ready\nnofile 1\n":                spec.CodePermission,
		"ready\nnofile 22\n":               spec.CodeUnsupported,
		"ready\nexec 0\n":                  spec.CodeUnknownOutcome,
		"ready\nexec 99999\n":              spec.CodeUnknownOutcome,
		"ready\nnosuch 1\n":                spec.CodeUnknownOutcome,
		"exec 2\n":                         spec.CodeUnavailable,
		"ready\nx":                         spec.CodeUnknownOutcome,
		"ready\n" + "\x00\xff" + "garbage": spec.CodeUnknownOutcome,
	} {
		if err := l.reportError(said); spec.CodeOf(err) != want {
			t.Errorf("%q: %v; want %s", said, err, want)
		}
	}
}

// A report that does not come to its end is not waited for, and whoever is to give it is
// reminded.
func TestReportEnds(t *testing.T) {
	for said, want := range map[string]string{"": "", reportReady: reportReady, strings.Repeat("x", 2*maxReport): strings.Repeat("x", maxReport)} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close() // never before the report is given up
		if _, err := w.WriteString(said); err != nil {
			t.Fatal(err)
		}
		reminded := 0
		got, err := hear(r, 3*nudge, func() { reminded++ })
		if got != want || err == nil {
			t.Errorf("%.10q: %.10q, %v", said, got, err)
		}
		if len(said) < maxReport && reminded == 0 {
			t.Errorf("%.10q: nobody was reminded", said)
		}
	}
}
