package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/files/filestest"
	"github.com/berth-dev/berth/files/tree"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/tarstream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// plainArchive has one directory, one file of three bytes in it and one link.
func plainArchive(t *testing.T) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tarstream.NewWriter(&buf, tarstream.Options{})
	err := errors.Join(
		w.WriteHeader(&tarstream.Header{Path: "d", Type: tarstream.Dir, Mode: 0o755}),
		w.WriteHeader(&tarstream.Header{Path: "d/f", Type: tarstream.File, Mode: 0o644, Size: 3}),
	)
	if err == nil {
		_, err = io.WriteString(w, "abc")
	}
	if err = errors.Join(err, w.WriteHeader(&tarstream.Header{Path: "l", Type: tarstream.Symlink, Target: "d"}), w.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// accepted reports whether an archive passes for whole.
func accepted(archive []byte) bool {
	w := tarstream.NewUncheckedWriter(io.Discard)
	return tarstream.Copy(w, tarstream.NewReader(bytes.NewReader(archive), tarstream.Options{}), nil) == nil
}

// An archive that a guest sends is refused as a stranger's is, by its reason, within the
// host's bounds of memory; and what the caller has got of it does not pass for whole.
func TestExportOfALiar(t *testing.T) {
	for _, h := range filestest.HostileArchives() {
		if h.CaseTwins {
			continue // only an import can refuse them
		}
		t.Run(h.Name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
				_, err := wire.WriteData(st, h.Data, 0)
				if err == nil && wire.WriteEnd(st) == nil {
					reply(st, wire.Reply{Tree: &wire.TreeStats{Files: 1}})
				}
			})
			s, grown := f.open(guest.OpenOptions{}), watchMemory(t)
			var got bytes.Buffer
			quickly(t, 30*time.Second, "the export", func() {
				_, err := tree.Export(context.Background(), s.Files(), "d", &got, tree.ExportOptions{})
				var refused *tree.RefusedError
				if !errors.As(err, &refused) || refused.Reason != h.Reason || h.Entry != "" && refused.Entry != h.Entry {
					t.Errorf("%v, want %s of %q", err, h.Reason, h.Entry)
				}
			})
			if accepted(got.Bytes()) {
				t.Errorf("what came out passes for whole: %d bytes", got.Len())
			}
			if n := grown(); n > 2*sessionBytes {
				t.Errorf("the host has used %d MiB more", n>>20)
			}
		})
	}
}

// What a guest says of an export must agree with what it sent, and an export is whole only
// if it has said so.
func TestEndOfAnExport(t *testing.T) {
	plain := plainArchive(t)
	right := wire.TreeStats{Files: 1, Dirs: 1, Links: 1, Bytes: 3, Skipped: 7}
	refusal := wire.FromError(spec.New(spec.CodePermission, "no"))
	tell := func(parts ...any) func(*wire.Stream) {
		return func(st *wire.Stream) {
			for _, p := range parts {
				switch p := p.(type) {
				case []byte:
					_, _ = wire.WriteData(st, p, 0)
				case nil:
					_ = wire.WriteEnd(st)
				default:
					_ = wire.WriteMessage(st, p)
				}
			}
			if _, ok := parts[len(parts)-1].(wire.Reply); ok {
				_, _ = io.Copy(io.Discard, st)
			}
		}
	}
	endless := func(block []byte) func(*wire.Stream) {
		return func(st *wire.Stream) {
			for err := error(nil); err == nil; {
				_, err = wire.WriteData(st, block, 0)
			}
		}
	}
	reply := func(s wire.TreeStats) wire.Reply { return wire.Reply{Tree: &s} }
	wrong := right
	wrong.Bytes++
	negative := wire.TreeStats{Files: -1, Dirs: 1, Links: 1, Bytes: 3}
	for _, tt := range []struct {
		name string
		tell func(*wire.Stream)
		want spec.Code
	}{
		{"whole", tell(plain, nil, reply(right)), ""},
		{"other counts", tell(plain, nil, reply(wrong)), spec.CodeInternal},
		{"negative counts", tell(plain, nil, reply(negative)), spec.CodeInternal},
		{"no counts", tell(plain, nil, wire.Reply{}), spec.CodeInternal},
		{"refused after the end", tell(plain, nil, wire.Reply{Err: refusal}), spec.CodePermission},
		{"refused instead of the end", tell(plain, wire.Reply{Err: refusal}), spec.CodePermission},
		{"refused at once", tell(wire.Reply{Err: refusal}), spec.CodePermission},
		{"cut without an end", tell(plain), spec.CodeInternal},
		{"cut before the counts", tell(plain, nil), spec.CodeInternal},
		{"entries without an end", endless(bytes.Repeat(plain[:512], 100)), spec.CodeInvalid},
		{"zeros without an end", endless(make([]byte, 32<<10)), spec.CodeInvalid},
		{"garbage without an end", endless(bytes.Repeat([]byte("x"), 32<<10)), spec.CodeInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) { tt.tell(st) })
			s := f.open(guest.OpenOptions{})
			var got bytes.Buffer
			quickly(t, 30*time.Second, "the export", func() {
				stats, err := tree.Export(context.Background(), s.Files(), "d", &got, tree.ExportOptions{})
				wantCode(t, err, tt.want)
				if want := (tree.Stats{Files: 1, Dirs: 1, Links: 1, Bytes: 3, Skipped: 7}); err == nil && stats != want {
					t.Errorf("%+v, want %+v", stats, want)
				}
			})
			if accepted(got.Bytes()) != (tt.want == "") {
				t.Errorf("what came out passes for whole: %v", tt.want != "")
			}
		})
	}
}

// What a guest says of an import is no more than was sent, and all of it if it is well.
func TestEndOfAnImport(t *testing.T) {
	right := wire.TreeStats{Files: 1, Dirs: 1, Links: 1, Bytes: 3}
	swallow := func(st *wire.Stream) { _, _ = io.Copy(io.Discard, wire.NewDataReader(st)) }
	for _, tt := range []struct {
		name  string
		reply wire.Reply
		want  spec.Code
		text  string
	}{
		{name: "whole", reply: wire.Reply{Tree: &right}},
		{name: "fewer", reply: wire.Reply{Tree: &wire.TreeStats{Files: 1}}, want: spec.CodeInternal},
		{name: "more", reply: wire.Reply{Tree: &wire.TreeStats{Files: 2, Dirs: 1, Links: 1, Bytes: 3}}, want: spec.CodeInternal},
		{name: "more with an error", reply: wire.Reply{Tree: &wire.TreeStats{Files: 2}, Err: wire.FromError(spec.New(spec.CodeNoSpace, "full"))}, want: spec.CodeInternal},
		{name: "an error", reply: wire.Reply{Tree: &wire.TreeStats{Dirs: 1}, Err: wire.FromError(spec.New(spec.CodeNoSpace, "it says why"))}, want: spec.CodeNoSpace, text: "it says why"},
		{name: "no counts", reply: wire.Reply{}, want: spec.CodeInternal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
				swallow(st)
				reply(st, tt.reply)
			})
			s := f.open(guest.OpenOptions{})
			quickly(t, 30*time.Second, "the import", func() {
				_, err := tree.Import(context.Background(), s.Files(), "d", bytes.NewReader(plainArchive(t)), tree.ImportOptions{})
				wantCode(t, err, tt.want)
				if err != nil && !strings.Contains(err.Error(), tt.text) {
					t.Errorf("%v does not say %q", err, tt.text)
				}
			})
		})
	}
}

// An import whose connection breaks may have happened.
func TestImportIsLost(t *testing.T) {
	f := newFake(t, func(c *fakeConn, st *wire.Stream, _ *wire.Request) {
		_, _ = io.Copy(io.Discard, wire.NewDataReader(st))
		c.cut()
	})
	s := f.open(guest.OpenOptions{})
	_, err := tree.Import(context.Background(), s.Files(), "d", bytes.NewReader(plainArchive(t)), tree.ImportOptions{})
	wantCode(t, err, spec.CodeUnknownOutcome)
}

// A manifest of a guest is bounded, and no path in it leads elsewhere or stands twice.
func TestManifestOfALiar(t *testing.T) {
	send := func(path func(i int) string, count int) func(*wire.Stream) {
		return func(st *wire.Stream) {
			var buf []byte
			prev := ""
			for i := 0; i != count; i++ {
				f := wire.TreeFile{Path: path(i), Mode: 0o644}
				buf = wire.AppendTreeFile(buf, prev, &f)
				if prev = f.Path; len(buf) > 10_000 {
					if _, err := wire.WriteData(st, buf, 0); err != nil {
						return
					}
					buf = buf[:0]
				}
			}
			if _, err := wire.WriteData(st, buf, 0); err == nil {
				_ = wire.WriteEnd(st)
			}
		}
	}
	number := func(i int) string { return fmt.Sprint(i) }
	fixed := func(path string) func(int) string { return func(int) string { return path } }
	for _, tt := range []struct {
		name string
		tell func(*wire.Stream)
		want spec.Code
	}{
		{"ten files", send(number, 10), ""},
		{"without an end", send(number, -1), spec.CodeTooLarge},
		{"a path twice", send(fixed("a"), 2), spec.CodeUnavailable},
		{"a parent", send(fixed("../a"), 1), spec.CodeInternal},
		{"an absolute path", send(fixed("/a"), 1), spec.CodeInternal},
		{"a path that is not UTF-8", send(fixed("\xff"), 1), spec.CodeInvalidPath},
		{"cut", func(st *wire.Stream) { _, _ = wire.WriteData(st, []byte{0, 1, 'a', 0}, 0) }, spec.CodeInternal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) { tt.tell(st) })
			s := f.open(guest.OpenOptions{})
			quickly(t, 30*time.Second, "the manifest", func() {
				_, err := tree.ReadManifest(context.Background(), s.Files(), "d", tree.ManifestOptions{MaxEntries: 1000})
				wantCode(t, err, tt.want)
			})
		})
	}
}
