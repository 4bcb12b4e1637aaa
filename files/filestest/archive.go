package filestest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/tree"
)

// tarEntry is one entry of an archive that a case makes.
type tarEntry struct {
	tar.Header
	content string
}

func tarFile(name, content string) tarEntry {
	return tarEntry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, content}
}

func tarDir(name string) tarEntry {
	return tarEntry{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}, ""}
}

func tarLink(name, target string) tarEntry {
	return tarEntry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}, ""}
}

func tarHard(name, target string) tarEntry {
	return tarEntry{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target, Mode: 0o644}, ""}
}

func tarDevice(kind byte, name string) tarEntry {
	return tarEntry{tar.Header{Typeflag: kind, Name: name, Devmajor: 1, Devminor: 3}, ""}
}

// tarOf makes an archive, however hostile.
func tarOf(entries ...tarEntry) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		if e.Typeflag == tar.TypeReg {
			e.Size = int64(len(e.content))
		}
		if err := w.WriteHeader(&e.Header); err != nil {
			panic("filestest: " + err.Error())
		}
		io.WriteString(w, e.content)
	}
	w.Close()
	return buf.Bytes()
}

// tarChanged is an archive whose header at a place has been changed.
func tarChanged(archive []byte, at int, change func(header []byte)) []byte {
	out := bytes.Clone(archive)
	h := out[at : at+512]
	change(h)
	const from, to = 148, 156 // the checksum
	copy(h[from:to], "        ")
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[from:to], fmt.Sprintf("%06o\x00 ", sum))
	return out
}

// tarPax is an archive of e behind an extended header with one record.
func tarPax(key, value string, e tarEntry) []byte {
	n := len(key) + len(value) + 3
	for len(fmt.Sprint(n))+len(key)+len(value)+3 != n {
		n++
	}
	x := tarOf(tarFile("pax", fmt.Sprintf("%d %s=%s\n", n, key, value)))
	return append(tarChanged(x[:1024], 0, func(h []byte) { h[156] = 'x' }), tarOf(e)...)
}

func hashOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// HostileArchive is an archive that every reader of Berth refuses.
type HostileArchive struct {
	Name   string
	Data   []byte
	Reason tree.Reason
	Entry  string // that the error names; "": none can be
	// CaseTwins: it is refused only where such are.
	CaseTwins bool
}

// HostileArchives returns one archive of each kind.
func HostileArchives() []HostileArchive {
	plain := tarOf(tarFile("a", "content"))
	return []HostileArchive{
		{Name: "a parent", Data: tarOf(tarFile("../evil", "1")), Reason: tree.BadPath, Entry: "../evil"},
		{Name: "a parent further down", Data: tarOf(tarFile("x/../../evil", "1")), Reason: tree.BadPath, Entry: "x/../../evil"},
		{Name: "a parent as a directory", Data: tarOf(tarDir("..")), Reason: tree.BadPath, Entry: ".."},
		{Name: "an absolute path", Data: tarOf(tarFile("/tmp/berth-evil", "1")), Reason: tree.BadPath, Entry: "/tmp/berth-evil"},
		{Name: "an absolute path by pax", Data: tarPax("path", "/tmp/berth-evil", tarFile("a", "1")), Reason: tree.BadPath, Entry: "/tmp/berth-evil"},
		{Name: "a link out", Data: tarOf(tarLink("evil", "../outside")), Reason: tree.BadSymlink, Entry: "evil"},
		{Name: "an absolute link", Data: tarOf(tarLink("evil", "/etc")), Reason: tree.BadSymlink, Entry: "evil"},
		{Name: "a link out through another", Data: tarOf(tarDir("d"), tarLink("d/up", ".."), tarLink("d/out", "up/..")), Reason: tree.BadSymlink, Entry: "d/out"},
		{Name: "a link out through a later one", Data: tarOf(tarDir("d"), tarLink("d/out", "up/.."), tarLink("d/up", "..")), Reason: tree.BadSymlink, Entry: "d/out"},
		{Name: "a link out through a deep one", Data: tarOf(
			tarDir("esc"), tarLink("esc/a/a/a/a/a/a/up", "../../../../../.."), tarLink("esc/out", "a/a/a/a/a/a/up/../../../../../../etc/hostname"),
		), Reason: tree.BadSymlink, Entry: "esc/out"},
		{Name: "a link, then a write through it", Data: tarOf(tarDir("d"), tarLink("evil", "d"), tarFile("evil/f", "1")), Reason: tree.PathConflict, Entry: "evil/f"},
		{Name: "a link in the place of a directory", Data: tarOf(tarDir("d"), tarLink("d", "e")), Reason: tree.PathConflict, Entry: "d"},
		{Name: "a hard link out", Data: tarOf(tarHard("evil", "../outside/canary")), Reason: tree.BadHardlink, Entry: "evil"},
		{Name: "an absolute hard link", Data: tarOf(tarHard("evil", "/etc/passwd")), Reason: tree.BadHardlink, Entry: "evil"},
		{Name: "a hard link to a link", Data: tarOf(tarLink("l", "x"), tarHard("evil", "l")), Reason: tree.BadHardlink, Entry: "evil"},
		{Name: "a character device", Data: tarOf(tarDevice(tar.TypeChar, "null")), Reason: tree.UnsupportedType, Entry: "null"},
		{Name: "a block device", Data: tarOf(tarDevice(tar.TypeBlock, "sda")), Reason: tree.UnsupportedType, Entry: "sda"},
		{Name: "a FIFO", Data: tarOf(tarDevice(tar.TypeFifo, "pipe")), Reason: tree.UnsupportedType, Entry: "pipe"},
		{Name: "a sparse file", Data: tarChanged(plain, 0, func(h []byte) { h[156] = 'S' }), Reason: tree.UnsupportedType, Entry: "a"},
		{Name: "a sparse file by pax", Data: tarPax("GNU.sparse.realsize", "1099511627776", tarFile("a", "1")), Reason: tree.UnsupportedType, Entry: "pax"},
		{Name: "a name twice", Data: tarOf(tarFile("a", "1"), tarFile("a", "2")), Reason: tree.Duplicate, Entry: "a"},
		{Name: "case twins", Data: tarOf(tarFile("a/File", "1"), tarFile("a/fILE", "2")), Reason: tree.Duplicate, Entry: "a/fILE", CaseTwins: true},
		{Name: "a file below a file", Data: tarOf(tarFile("a", "1"), tarFile("a/b", "2")), Reason: tree.PathConflict, Entry: "a/b"},
		{Name: "20 GB declared", Data: tarChanged(plain, 0, func(h []byte) { copy(h[124:136], "240000000000") }), Reason: tree.FileTooLarge, Entry: "a"},
		{Name: "20 GB declared by pax", Data: tarPax("size", "20000000000", tarFile("a", "1")), Reason: tree.FileTooLarge, Entry: "a"},
		{Name: "many hard links to a large file", Data: bomb(), Reason: tree.ArchiveTooLarge},
		{Name: "a wrong checksum", Data: append([]byte("b"), plain[1:]...), Reason: tree.BadHeader},
		{Name: "garbage after the end", Data: append(bytes.Clone(plain), "#!/bin/sh"...), Reason: tree.BadHeader},
		{Name: "another archive after the end", Data: append(bytes.Clone(plain), plain...), Reason: tree.BadHeader},
		{Name: "nothing", Reason: tree.Truncated},
		{Name: "text", Data: []byte(strings.Repeat("tar: not found\n", 100)), Reason: tree.BadHeader},
	}
}

// bomb is an archive that grows a thousandfold where hard links are not counted.
func bomb() []byte {
	all := []tarEntry{tarFile("a", strings.Repeat("x", 1<<20))}
	for i := range 1100 {
		all = append(all, tarHard(fmt.Sprintf("b%d", i), "a"))
	}
	return tarOf(all...)
}

func treeHostile(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("outside/canary"), "alive")
	before := e.listing(ctx, t, e.path("outside"))
	for i, h := range HostileArchives() {
		if h.Name == "many hard links to a large file" && !e.Soak {
			continue // it writes a gigabyte until it is refused
		}
		to := e.path(fmt.Sprintf("to%d", i))
		_, err := tree.Import(ctx, e.FS, to, bytes.NewReader(h.Data), tree.ImportOptions{RefuseCaseTwins: h.CaseTwins})
		wantRefused(t, h.Name, err, h.Reason, h.Entry)
		if err := e.FS.Remove(ctx, to, files.RemoveOptions{Recursive: true}); err != nil {
			t.Errorf("%s: remove: %v", h.Name, err)
		}
	}
	whole := tarOf(tarDir("d"), tarFile("d/a", strings.Repeat("x", 700)), tarLink("l", "d"))
	for n := 0; n < len(whole); n += 512 {
		_, err := tree.Import(ctx, e.FS, e.path("cut"), bytes.NewReader(whole[:n]), tree.ImportOptions{})
		wantRefused(t, fmt.Sprintf("cut after %d bytes", n), err, tree.Truncated, "")
	}
	if after := e.listing(ctx, t, e.path("outside")); !slices.Equal(before, after) {
		t.Errorf("outside there is %q, and was %q", after, before)
	}
	if left := e.listing(ctx, t, e.Dir); slices.ContainsFunc(left, func(line string) bool { return strings.Contains(line, "evil") }) {
		t.Errorf("something evil came out: %q", left)
	}
}
