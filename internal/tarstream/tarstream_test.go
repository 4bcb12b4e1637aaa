package tarstream_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/tarstream"
	"github.com/berth-dev/berth/spec"
)

// entry is one entry with its content.
type entry struct {
	tarstream.Header
	Content string
}

// readAll reads an archive; what was read before an error is returned with it.
func readAll(src io.Reader, o tarstream.Options) ([]entry, error) {
	r := tarstream.NewReader(src, o)
	var all []entry
	for {
		h, err := r.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return all, err
		}
		all = append(all, entry{*h, string(content)})
	}
}

// archive makes one with the standard library.
func archive(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		content := h.Uname // a place for it
		h.Uname = ""
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content[:h.Size]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func file(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Uname: content}
}

func dir(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}
}

func link(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}

func hard(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}
}

func special(kind byte, name string) tar.Header {
	return tar.Header{Typeflag: kind, Name: name, Devmajor: 1, Devminor: 3}
}

// resealed changes one header block of an archive and mends its checksum.
func resealed(data []byte, at int, change func(block []byte)) []byte {
	out := bytes.Clone(data)
	b := out[at : at+512]
	change(b)
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return out
}

// pax makes an archive whose first header is an extended one with these records.
func pax(t testing.TB, records string, h tar.Header) []byte {
	t.Helper()
	x := archive(t, tar.Header{Typeflag: tar.TypeReg, Name: "pax", Uname: records})
	x = resealed(x[:len(x)-1024], 0, func(b []byte) { b[156] = 'x' })
	return append(x, archive(t, h)...)
}

func record(key, value string) string {
	for n := 0; ; n++ {
		if s := fmt.Sprintf("%d %s=%s\n", n, key, value); len(s) == n {
			return s
		}
	}
}

// Each hostile archive is refused by its reason, in an error that names the entry.
func TestRefused(t *testing.T) {
	plain := archive(t, file("a", "content"))
	long := strings.Repeat("x", 300)
	small := tarstream.Options{Limits: tarstream.Limits{FileBytes: 100, ArchiveBytes: 4096, HeaderBytes: 1000, Entries: 3}}
	for name, c := range map[string]struct {
		data  []byte
		o     tarstream.Options
		want  tarstream.Reason
		entry string
	}{
		"parent":               {data: archive(t, file("../a", "")), want: tarstream.BadPath, entry: "../a"},
		"parent inside":        {data: archive(t, file("a/../../b", "")), want: tarstream.BadPath, entry: "a/../../b"},
		"absolute":             {data: archive(t, file("/etc/passwd", "")), want: tarstream.BadPath, entry: "/etc/passwd"},
		"dot twice":            {data: archive(t, file("././a", "")), want: tarstream.BadPath, entry: "././a"},
		"empty element":        {data: archive(t, file("a//b", "")), want: tarstream.BadPath, entry: "a//b"},
		"file with a slash":    {data: resealed(archive(t, dir("a/")), 0, func(b []byte) { b[156] = '0' }), want: tarstream.BadPath, entry: "a/"},
		"two slashes":          {data: archive(t, dir("a//")), want: tarstream.BadPath, entry: "a//"},
		"file as the top":      {data: resealed(archive(t, file("a", "")), 0, func(b []byte) { copy(b, ".\x00") }), want: tarstream.BadPath, entry: "."},
		"long element":         {data: archive(t, file(long, "")), want: tarstream.BadPath, entry: long[:256]},
		"long path":            {data: archive(t, file(strings.Repeat("d/", 2100)+"f", "")), want: tarstream.BadPath, entry: strings.Repeat("d/", 128)},
		"not utf-8":            {data: pax(t, record("path", "a\xff"), file("a", "")), o: tarstream.Options{UTF8: true}, want: tarstream.BadPath, entry: "a\xff"},
		"link not utf-8":       {data: pax(t, record("linkpath", "a\xff"), link("a", "b")), o: tarstream.Options{UTF8: true}, want: tarstream.BadSymlink, entry: "a"},
		"link out":             {data: archive(t, link("d/a", "../../b")), want: tarstream.BadSymlink, entry: "d/a"},
		"link out and back":    {data: archive(t, link("a", "../b/a")), want: tarstream.BadSymlink, entry: "a"},
		"link up after a name": {data: archive(t, link("d/out", "up/.."), link("d/up", "..")), want: tarstream.BadSymlink, entry: "d/out"},
		"absolute link":        {data: archive(t, link("a", "/etc/passwd")), want: tarstream.BadSymlink, entry: "a"},
		"empty link":           {data: archive(t, link("a", "")), want: tarstream.BadSymlink, entry: "a"},
		"through a link":       {data: archive(t, dir("d"), link("a", "d"), file("a/b", "")), want: tarstream.PathConflict, entry: "a/b"},
		"hard link through":    {data: archive(t, dir("d"), file("d/f", ""), link("a", "d"), hard("b", "a/f")), want: tarstream.BadHardlink, entry: "b"},
		"hard link out":        {data: archive(t, hard("a", "../b")), want: tarstream.BadHardlink, entry: "a"},
		"absolute hard link":   {data: archive(t, hard("a", "/etc/shadow")), want: tarstream.BadHardlink, entry: "a"},
		"hard link to later":   {data: archive(t, hard("a", "b"), file("b", "")), want: tarstream.BadHardlink, entry: "a"},
		"hard link to itself":  {data: archive(t, hard("a", "a")), want: tarstream.BadHardlink, entry: "a"},
		"hard link to a dir":   {data: archive(t, dir("d"), hard("a", "d")), want: tarstream.BadHardlink, entry: "a"},
		"hard link to a link":  {data: archive(t, link("l", "x"), hard("a", "l")), want: tarstream.BadHardlink, entry: "a"},
		"character device":     {data: archive(t, special(tar.TypeChar, "null")), want: tarstream.UnsupportedType, entry: "null"},
		"block device":         {data: archive(t, special(tar.TypeBlock, "sda")), want: tarstream.UnsupportedType, entry: "sda"},
		"fifo":                 {data: archive(t, special(tar.TypeFifo, "pipe")), want: tarstream.UnsupportedType, entry: "pipe"},
		"contiguous":           {data: resealed(plain, 0, func(b []byte) { b[156] = '7' }), want: tarstream.UnsupportedType, entry: "a"},
		"sparse of GNU":        {data: resealed(plain, 0, func(b []byte) { b[156] = 'S' }), want: tarstream.UnsupportedType, entry: "a"},
		"sparse of pax":        {data: pax(t, record("GNU.sparse.major", "1")+record("GNU.sparse.realsize", "99999999999"), file("a", "")), want: tarstream.UnsupportedType, entry: "pax"},
		"global path":          {data: resealed(pax(t, record("path", "b"), file("a", "")), 0, func(b []byte) { b[156] = 'g' }), want: tarstream.BadHeader, entry: "pax"},
		"duplicate":            {data: archive(t, file("a", "1"), file("a", "2")), want: tarstream.Duplicate, entry: "a"},
		"duplicate with dot":   {data: archive(t, file("a", "1"), file("./a", "2")), want: tarstream.Duplicate, entry: "./a"},
		"duplicate link":       {data: archive(t, file("a", "1"), link("a", "b")), want: tarstream.Duplicate, entry: "a"},
		"duplicate directory":  {data: archive(t, dir("a/"), dir("a")), want: tarstream.Duplicate, entry: "a"},
		"case twins":           {data: archive(t, file("Makefile", ""), file("makefile", "")), o: tarstream.Options{CaseTwins: true}, want: tarstream.Duplicate, entry: "makefile"},
		"case twins above":     {data: archive(t, file("src/a", ""), file("SRC/b", "")), o: tarstream.Options{CaseTwins: true}, want: tarstream.Duplicate, entry: "SRC/b"},
		"case twins of a sign": {data: archive(t, file("k", ""), file("\u212a", "")), o: tarstream.Options{CaseTwins: true}, want: tarstream.Duplicate, entry: "\u212a"},
		"file over a dir":      {data: archive(t, dir("a"), file("a", "")), want: tarstream.PathConflict, entry: "a"},
		"file over implied":    {data: archive(t, file("a/b", ""), file("a", "")), want: tarstream.PathConflict, entry: "a"},
		"dir over a file":      {data: archive(t, file("a", ""), dir("a")), want: tarstream.PathConflict, entry: "a"},
		"below a file":         {data: archive(t, file("a", ""), file("a/b/c", "")), want: tarstream.PathConflict, entry: "a/b/c"},
		"20 GB declared":       {data: resealed(plain, 0, func(b []byte) { copy(b[124:136], "240000000000") }), want: tarstream.FileTooLarge, entry: "a"},
		"20 GB by pax":         {data: pax(t, record("size", "20000000000"), file("a", "")), want: tarstream.FileTooLarge, entry: "a"},
		"most that fits":       {data: pax(t, record("size", "9223372036854775807"), file("a", "")), o: tarstream.Options{Limits: tarstream.Limits{FileBytes: 1<<63 - 1}}, want: tarstream.FileTooLarge, entry: "a"},
		"negative base 256":    {data: resealed(plain, 0, func(b []byte) { copy(b[124:136], bytes.Repeat([]byte{0xff}, 12)) }), want: tarstream.BadHeader},
		"file over its limit":  {data: archive(t, file("a", strings.Repeat("x", 101))), o: small, want: tarstream.FileTooLarge, entry: "a"},
		"archive over":         {data: archive(t, file("a", "1"), file("b", "2"), file("c/d", "3")), o: tarstream.Options{Limits: tarstream.Limits{ArchiveBytes: 3 * 1024}}, want: "", entry: ""},
		"archive over by one":  {data: archive(t, file("a", "1"), file("b", "2"), file("c", "3")), o: tarstream.Options{Limits: tarstream.Limits{ArchiveBytes: 3*1024 - 1}}, want: tarstream.ArchiveTooLarge, entry: "c"},
		"hard links count":     {data: archive(t, file("a", strings.Repeat("x", 1000)), hard("b", "a"), hard("c", "a")), o: tarstream.Options{Limits: tarstream.Limits{ArchiveBytes: 4000}}, want: tarstream.ArchiveTooLarge, entry: "c"},
		"too many":             {data: archive(t, dir("a"), dir("b"), dir("c"), dir("d")), o: small, want: tarstream.ArchiveTooLarge, entry: "d"},
		"too many implied":     {data: archive(t, file("a/b/c/d", "")), o: small, want: tarstream.ArchiveTooLarge, entry: "a/b/c/d"},
		"long pax header":      {data: pax(t, record("comment", strings.Repeat("x", 1000)), file("a", "")), o: small, want: tarstream.ArchiveTooLarge, entry: "pax"},
		"broken pax record":    {data: pax(t, "12 path=a\n", file("a", "")), want: tarstream.BadHeader, entry: "pax"},
		"path twice":           {data: pax(t, record("path", "b")+record("path", "c"), file("a", "")), want: tarstream.BadHeader, entry: "pax"},
		"empty pax path":       {data: pax(t, record("path", ""), file("a", "")), want: tarstream.BadHeader, entry: "pax"},
		"NUL in a pax path":    {data: pax(t, record("path", "a\x00b"), file("a", "")), want: tarstream.BadHeader, entry: "pax"},
		"two pax headers":      {data: append(pax(t, record("path", "b"), file("a", ""))[:1024], pax(t, record("path", "c"), file("a", ""))...), want: tarstream.BadHeader, entry: "pax"},
		"pax and no entry":     {data: append(pax(t, record("path", "b"), file("a", ""))[:1024], make([]byte, 1024)...), want: tarstream.BadHeader, entry: "pax"},
		"checksum":             {data: append([]byte("b"), plain[1:]...), want: tarstream.BadHeader},
		"no magic":             {data: resealed(plain, 0, func(b []byte) { clear(b[257:265]) }), want: tarstream.BadHeader},
		"star":                 {data: resealed(plain, 0, func(b []byte) { copy(b[508:], "tar\x00") }), want: tarstream.BadHeader},
		"text after a name":    {data: resealed(plain, 0, func(b []byte) { b[2] = 'x' }), want: tarstream.BadHeader},
		"directory with size":  {data: resealed(archive(t, dir("a")), 0, func(b []byte) { b[134] = '1' }), want: tarstream.BadHeader, entry: "a"},
		"empty stream":         {data: nil, want: tarstream.Truncated},
		"one zero block":       {data: plain[:len(plain)-512], want: tarstream.Truncated},
		"garbage in the end":   {data: append(bytes.Clone(plain[:len(plain)-1]), 'x'), want: tarstream.BadHeader},
		"garbage after it":     {data: append(bytes.Clone(plain), 'x'), want: tarstream.BadHeader},
		"an archive after it":  {data: append(bytes.Clone(plain), plain...), want: tarstream.BadHeader},
		"endless zeros":        {data: append(bytes.Clone(plain), make([]byte, 2<<20)...), want: tarstream.BadHeader},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readAll(bytes.NewReader(c.data), c.o)
			if c.want == "" {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			var refused *tarstream.RefusedError
			if !errors.As(err, &refused) || refused.Reason != c.want || refused.Entry != c.entry {
				t.Fatalf("%v, want %s of %q", err, c.want, c.entry)
			}
			code := spec.CodeInvalid
			if c.want == tarstream.FileTooLarge || c.want == tarstream.ArchiveTooLarge {
				code = spec.CodeTooLarge
			}
			if spec.CodeOf(err) != code {
				t.Errorf("the code is %s, want %s", spec.CodeOf(err), code)
			}
		})
	}
}

// An archive that ends anywhere before its end is Truncated, and never looks whole.
func TestTruncatedAnywhere(t *testing.T) {
	data := archive(t, dir("d"), file("d/a", strings.Repeat("x", 700)), link("l", "d"), file(strings.Repeat("long/", 60)+"f", "content"))
	for n := range data {
		_, err := readAll(iotest.DataErrReader(bytes.NewReader(data[:n])), tarstream.Options{})
		var refused *tarstream.RefusedError
		if !errors.As(err, &refused) || refused.Reason != tarstream.Truncated {
			t.Fatalf("cut after %d of %d bytes: %v", n, len(data), err)
		}
	}
}

// What cannot be read is no fault of the archive: the source's error comes back. A source
// that says itself that it was cut is an archive that was, also behind its end marker.
func TestSourceError(t *testing.T) {
	data := archive(t, file("a", strings.Repeat("x", 3000)))
	broken := errors.New("the disk broke")
	for n := 0; n <= len(data); n += 128 {
		_, err := readAll(io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(broken)), tarstream.Options{})
		if !errors.Is(err, broken) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
		_, err = readAll(io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(io.ErrUnexpectedEOF)), tarstream.Options{})
		var refused *tarstream.RefusedError
		if !errors.As(err, &refused) || refused.Reason != tarstream.Truncated {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
	}
}

// What Writer writes, Reader and the standard library read, byte for byte; and it
// measures the same on both sides.
func TestRoundTrip(t *testing.T) {
	when := time.Unix(1700000000, 0)
	deep := strings.Repeat(strings.Repeat("d", 99)+"/", 40) + "f"
	var want []entry
	for _, e := range []entry{
		{Header: tarstream.Header{Path: "d", Type: tarstream.Dir, Mode: 0o711 | fs.ModeSetgid | fs.ModeSticky}},
		{Header: tarstream.Header{Path: "d/run", Type: tarstream.File, Mode: 0o4755&0o777 | fs.ModeSetuid, Size: 5}, Content: "12345"},
		{Header: tarstream.Header{Path: "d/empty", Type: tarstream.File}},
		{Header: tarstream.Header{Path: "full", Type: tarstream.File, Mode: 0o600, Size: 1024}, Content: strings.Repeat("y", 1024)},
		{Header: tarstream.Header{Path: "new\nline \xff", Type: tarstream.File, Mode: 0o644, Size: 1}, Content: "\x00"},
		{Header: tarstream.Header{Path: strings.Repeat("n", 255), Type: tarstream.File, Mode: 0o644, Size: 2}, Content: "ab"},
		{Header: tarstream.Header{Path: strings.Repeat("\xfe", 255), Type: tarstream.Dir, Mode: 0o755}},
		{Header: tarstream.Header{Path: deep, Type: tarstream.File, Mode: 0o644}},
		{Header: tarstream.Header{Path: "d/link", Type: tarstream.Symlink, Target: "../full"}},
		{Header: tarstream.Header{Path: "far", Type: tarstream.Symlink, Target: deep}},
	} {
		e.ModTime = when
		want = append(want, e)
	}
	var buf bytes.Buffer
	w := tarstream.NewWriter(&buf, tarstream.Options{})
	for _, e := range want {
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.Content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	framed := int64(buf.Len()) - 1024
	got, err := readAll(iotest.OneByteReader(bytes.NewReader(buf.Bytes())), tarstream.Options{Limits: tarstream.Limits{ArchiveBytes: framed}})
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := readAll(bytes.NewReader(buf.Bytes()), tarstream.Options{Limits: tarstream.Limits{ArchiveBytes: framed - 1}}); spec.CodeOf(err) != spec.CodeTooLarge {
		t.Errorf("one byte less than the archive has: %v", err)
	}
	compare(t, buf.Bytes())

	var counts tarstream.Counts
	again, err := copied(buf.Bytes(), tarstream.Options{}, counts.Add)
	if err != nil || !bytes.Equal(again, buf.Bytes()) || counts != (tarstream.Counts{Files: 6, Dirs: 2, Links: 2, Bytes: 1032}) {
		t.Errorf("copied: %+v, %v, the same: %v", counts, err, bytes.Equal(again, buf.Bytes()))
	}
}

// copied is what Copy makes of an archive.
func copied(data []byte, o tarstream.Options, each func(*tarstream.Header)) ([]byte, error) {
	var buf bytes.Buffer
	w := tarstream.NewUncheckedWriter(&buf)
	err := tarstream.Copy(w, tarstream.NewReader(bytes.NewReader(data), o), each)
	if err == nil {
		err = w.Close()
	}
	return buf.Bytes(), err
}

// compare holds what Reader makes of an archive that it accepts against what the
// standard library does.
func compare(t *testing.T, data []byte) {
	t.Helper()
	got, err := readAll(bytes.NewReader(data), tarstream.Options{})
	if err != nil {
		return
	}
	r := tar.NewReader(bytes.NewReader(data))
	for i := 0; ; {
		h, err := r.Next()
		if err == io.EOF && i == len(got) {
			return
		}
		if err != nil {
			t.Fatalf("accepted, and archive/tar says after %d of %d entries: %v", i, len(got), err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader || h.Typeflag == tar.TypeDir && (h.Name == "." || h.Name == "./") {
			continue
		}
		if i == len(got) {
			t.Fatalf("archive/tar reads more: %+v", h)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("accepted, and archive/tar cannot read %q: %v", h.Name, err)
		}
		g := got[i]
		kind := map[byte]tarstream.Type{tar.TypeReg: tarstream.File, tar.TypeDir: tarstream.Dir, tar.TypeSymlink: tarstream.Symlink, tar.TypeLink: tarstream.Hardlink}[h.Typeflag]
		name, target := strings.TrimPrefix(h.Name, "./"), h.Linkname
		switch kind {
		case tarstream.Dir:
			name, target = strings.TrimSuffix(name, "/"), ""
		case tarstream.File:
			target = ""
		case tarstream.Hardlink:
			target = strings.TrimPrefix(target, "./")
			h.Size = g.Size
		}
		if g.Path != name || g.Type != kind || g.Size != h.Size || g.Target != target || g.Content != string(content) ||
			g.Mode.Perm() != fs.FileMode(h.Mode).Perm() || !g.ModTime.Equal(h.ModTime) {
			t.Fatalf("entry %d is read in two ways:\n%+v\n%+v", i, g, h)
		}
		i++
	}
}

// Archives that others make are read as the standard library reads them.
func TestForeign(t *testing.T) {
	for name, data := range foreign(t) {
		if _, err := readAll(bytes.NewReader(data), tarstream.Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		compare(t, data)
	}
}

func foreign(t testing.TB) map[string][]byte {
	long := strings.Repeat("long/", 60) + "f"
	gnu, paxed, ustar := file(long, "gnu"), file(long+"\xc3\xa9", "pax"), file(strings.Repeat("d", 90)+"/"+strings.Repeat("f", 90), "ustar")
	gnu.Format, paxed.Format, ustar.Format = tar.FormatGNU, tar.FormatPAX, tar.FormatUSTAR
	paxed.ModTime = time.Unix(1700000000, 123456789)
	gnu.ModTime = time.Unix(-5, 0)
	gnuLink := link("l", strings.Repeat("t/", 80)+"t")
	gnuLink.Format = tar.FormatGNU
	all := map[string][]byte{
		"top":       archive(t, dir("./"), dir("./d/"), file("./d/f", "x"), hard("./d/h", "./d/f")),
		"gnu":       archive(t, gnu, gnuLink),
		"pax":       archive(t, paxed),
		"ustar":     archive(t, ustar),
		"base 256":  resealed(archive(t, file("a", "abc")), 0, func(b []byte) { copy(b[124:136], "\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03") }),
		"old file":  resealed(archive(t, file("a", "abc")), 0, func(b []byte) { b[156] = 0 }),
		"comment":   resealed(pax(t, record("comment", "0123456789abcdef"), file("a", "")), 0, func(b []byte) { b[156] = 'g' }),
		"pax size":  pax(t, record("size", "3"), file("a", "abc")),
		"pax times": pax(t, record("mtime", "-1.5")+record("atime", "1")+record("uid", "-3"), file("a", "abc")),
		"record":    append(archive(t, file("a", "abc")), make([]byte, 8192)...),
		"implied":   archive(t, file("a/b/c", "x"), dir("a/b"), dir("a")),
	}
	return all
}

// Whatever it is given Reader ends, and what it accepts the standard library reads in
// the same way.
func FuzzReader(f *testing.F) {
	for _, data := range foreign(f) {
		f.Add(data)
	}
	f.Add(archive(f, link("a", "../b")))
	f.Add(archive(f, file("a", "1"), hard("b", "a"), dir("d"), file("d/a", "2")))
	f.Add(pax(f, record("GNU.sparse.major", "1")+record("path", "x"), file("a", "abc")))
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1 << 20
		o := tarstream.Options{Limits: tarstream.Limits{FileBytes: limit, ArchiveBytes: limit, Entries: 1000}, CaseTwins: true, UTF8: true}
		strict, err := copied(data, o, nil)
		if err == nil {
			if _, err := readAll(bytes.NewReader(strict), o); err != nil {
				t.Fatalf("a copy of what was accepted is refused: %v", err)
			}
		}
		compare(t, data)
	})
}

// FuzzSealed is FuzzReader with checksums that are right, which a fuzzer hardly finds.
func FuzzSealed(f *testing.F) {
	for _, data := range foreign(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 512 {
			return
		}
		for at := 0; at+512 <= len(data); at += 512 {
			if string(data[at+257:at+262]) == "ustar" {
				data = resealed(data, at, func([]byte) {})
			}
		}
		compare(t, data)
	})
}

// Names that differ in a byte that is no letter, because it is not UTF-8, are no twins; those
// that differ in case beside such a byte are.
func TestTwinsAreLetters(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		twins bool
	}{
		{"a\xff", "a\xfe", false},
		{"d\xff/f", "d\xfe/f", false},
		{"a\xff", "a\ufffd", false},
		{"\xe2\x84k", "\xe2\x84K", true},
		{"a\xff", "A\xff", true},
		{"\ufffdA", "\ufffda", true},
	} {
		_, err := readAll(bytes.NewReader(archive(t, raw(c.a), raw(c.b))), tarstream.Options{CaseTwins: true})
		var refused *tarstream.RefusedError
		if twins := errors.As(err, &refused) && refused.Reason == tarstream.Duplicate; twins != c.twins || err != nil && !twins {
			t.Errorf("%q and %q: %v, want twins: %v", c.a, c.b, err, c.twins)
		}
	}
}

// raw is an empty file with any name.
func raw(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Format: tar.FormatGNU}
}

// An engine calls all that has several names a hard link but under the first name: what is
// passed over is so under all of them, and a symbolic link is one under each, with the same
// target, which may lead out from one and not from another.
func TestSeveralNames(t *testing.T) {
	tests := []struct {
		name    string
		headers []tar.Header
		omit    bool
		want    []string
		skipped int
		reason  tarstream.Reason
	}{
		{name: "a FIFO", headers: []tar.Header{special(tar.TypeFifo, "./p"), hard("./q", "./p"), hard("r", "p")}, skipped: 3},
		{name: "a link", headers: []tar.Header{file("f", ""), link("l", "f"), hard("m", "l"), hard("d/n", "./m")}, want: []string{"f", "l->f", "m->f", "d/n->f"}},
		{name: "a link that leads out from the second", headers: []tar.Header{link("d/l", "../f"), hard("m", "d/l")}, want: []string{"d/l->../f"}, reason: tarstream.BadSymlink},
		{name: "and is left out there", headers: []tar.Header{link("d/l", "../f"), hard("m", "d/l"), hard("d/n", "m")}, omit: true, want: []string{"d/l->../f", "d/n->../f"}, skipped: 1},
		{name: "a link that leads out from the first", headers: []tar.Header{link("l", "../f"), hard("d/m", "l")}, omit: true, want: []string{"d/m->../f"}, skipped: 1},
		{name: "a link that leads out from anywhere", headers: []tar.Header{link("l", "/f"), hard("d/m", "l"), hard("n", "d/m")}, omit: true, skipped: 3},
		{name: "what is passed over has a bad name", headers: []tar.Header{special(tar.TypeFifo, "../p")}, reason: tarstream.BadPath},
		{name: "a file in its place", headers: []tar.Header{special(tar.TypeFifo, "p"), file("p", "")}, reason: tarstream.Duplicate},
		{name: "a file below it", headers: []tar.Header{special(tar.TypeFifo, "p"), file("p/f", "")}, reason: tarstream.PathConflict},
		{name: "a file behind a link that was passed over", headers: []tar.Header{link("l", "/d"), file("l/f", "")}, omit: true, reason: tarstream.PathConflict},
		{name: "nothing", headers: []tar.Header{hard("m", "l")}, reason: tarstream.BadHardlink},
		{name: "a directory", headers: []tar.Header{dir("d"), hard("m", "d")}, want: []string{"d"}, reason: tarstream.BadHardlink},
	}
	for _, tt := range tests {
		r := tarstream.NewReader(bytes.NewReader(archive(t, tt.headers...)), tarstream.Options{OmitOthers: true, OmitLinks: tt.omit})
		got, err := described(r)
		var refused *tarstream.RefusedError
		switch {
		case !slices.Equal(got, tt.want):
			t.Errorf("%s: %q, want %q: %v", tt.name, got, tt.want, err)
		case tt.reason == "" && (err != io.EOF || r.Skipped() != tt.skipped):
			t.Errorf("%s: %d skipped, %v; want %d", tt.name, r.Skipped(), err, tt.skipped)
		case tt.reason != "" && (!errors.As(err, &refused) || refused.Reason != tt.reason):
			t.Errorf("%s: %v; want it refused as %s", tt.name, err, tt.reason)
		}
	}
}

// Targets that are kept for other names are bounded: a link behind the bound has one name.
func TestTargetsAreBounded(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		buf := bufio.NewWriterSize(w, 1<<20)
		to := tar.NewWriter(buf)
		target := strings.Repeat("t/", 2000) + "t"
		for i := range 32<<20/len(target) + 1 {
			h := link(fmt.Sprint("l", i), target)
			if err := to.WriteHeader(&h); err != nil {
				return // the reader has had enough
			}
		}
		for _, name := range []string{"l0", "l" + fmt.Sprint(32<<20/len(target))} {
			h := hard("of-"+name, name)
			if err := to.WriteHeader(&h); err != nil {
				return
			}
		}
		to.Close()
		buf.Flush()
		w.Close()
	}()
	defer r.Close()
	_, err := readAll(r, tarstream.Options{OmitOthers: true})
	var refused *tarstream.RefusedError
	if !errors.As(err, &refused) || refused.Reason != tarstream.ArchiveTooLarge || !strings.HasPrefix(refused.Entry, "of-l8") {
		t.Errorf("%v, want the last link refused", err)
	}
}

// described reads an archive, and says its names and their targets.
func described(r *tarstream.Reader) (all []string, err error) {
	for {
		h, err := r.Next()
		if err != nil {
			return all, err
		}
		name := h.Path
		if h.Target != "" {
			name += "->" + h.Target
		}
		all = append(all, name)
	}
}

// TestOmitted defends: what is to be passed over is, and is counted.
func TestOmitted(t *testing.T) {
	tests := []struct {
		name    string
		headers []tar.Header
		omit    bool
		want    []string
		skipped int
		reason  tarstream.Reason
	}{
		{name: "what is no file", headers: []tar.Header{dir("./"), special(tar.TypeFifo, "./p"), special(tar.TypeChar, "./c"), file("./a", "1"), hard("./b", "./a")}, want: []string{"a", "b->a"}, skipped: 2},
		{name: "a link that leads out", headers: []tar.Header{link("l", "../x")}, reason: tarstream.BadSymlink},
		{name: "is left out", headers: []tar.Header{link("l", "../x"), link("m", "/etc"), link("n", "l")}, omit: true, skipped: 2, want: []string{"n->l"}},
	}
	for _, tt := range tests {
		r := tarstream.NewReader(bytes.NewReader(archive(t, tt.headers...)), tarstream.Options{OmitOthers: true, OmitLinks: tt.omit})
		got, err := described(r)
		var refused *tarstream.RefusedError
		switch {
		case tt.reason == "" && (err != io.EOF || !slices.Equal(got, tt.want) || r.Skipped() != tt.skipped):
			t.Errorf("%s: %q, %d skipped, %v; want %q, %d", tt.name, got, r.Skipped(), err, tt.want, tt.skipped)
		case tt.reason != "" && (!errors.As(err, &refused) || refused.Reason != tt.reason):
			t.Errorf("%s: %v; want it refused as %s", tt.name, err, tt.reason)
		}
	}
}
