//go:build unix

package gitindex_test

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/gitindex"
)

// entry is one of an index that nobody's git has made.
type entry struct {
	mode   uint32
	name   string
	flags  uint16
	length int // what the flags say; 0: as it is
	strip  int // of the name before, in version 4
}

// craft makes an index. tail is what stands between the entries and the checksum.
func craft(version, hash int, tail string, entries ...entry) []byte {
	b := []byte("DIRC")
	b = binary.BigEndian.AppendUint32(b, uint32(version))
	b = binary.BigEndian.AppendUint32(b, uint32(len(entries)))
	for _, e := range entries {
		at := len(b)
		if e.mode == 0 {
			e.mode = 0o100644
		}
		if e.length == 0 {
			e.length = len(e.name)
		}
		b = append(b, make([]byte, 24)...)
		b = binary.BigEndian.AppendUint32(b, e.mode)
		b = append(b, make([]byte, 12+hash)...)
		b = binary.BigEndian.AppendUint16(b, e.flags|uint16(e.length))
		if e.flags&0x4000 != 0 {
			b = append(b, 0x20, 0)
		}
		if version == 4 {
			b = append(b, byte(e.strip))
			b = append(b, e.name...)
			b = append(b, 0)
			continue
		}
		b = append(b, e.name...)
		b = append(b, make([]byte, 8-(len(b)-at)%8)...)
	}
	b = append(b, tail...)
	return append(b, make([]byte, hash)...)
}

// extension is one with a name.
func extension(name string, data []byte) string {
	return name + string(binary.BigEndian.AppendUint32(nil, uint32(len(data)))) + string(data)
}

func numbers(n ...uint32) []byte {
	var b []byte
	for _, n := range n {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// eoie says where the entries end, and that these extensions follow.
func eoie(at uint32, before ...string) string {
	sum := sha1.New()
	for _, ext := range before {
		sum.Write([]byte(ext[:8]))
	}
	return extension("EOIE", append(numbers(at), sum.Sum(nil)...))
}

// crafted are indexes, and what is to be read of them.
var crafted = map[string]struct {
	index []byte
	want  gitindex.Index
}{
	"nothing":               {craft(2, 20, ""), gitindex.Index{}},
	"the configuration":     {craft(2, 20, "", entry{name: ".git/config"}), gitindex.Index{Astray: ".git/config"}},
	"with other hashes":     {craft(2, 32, "", entry{name: ".git/config"}), gitindex.Index{Astray: ".git/config"}},
	"whatever case":         {craft(2, 20, "", entry{name: "a/.GiT"}), gitindex.Index{Astray: "a/.GiT"}},
	"above":                 {craft(2, 20, "", entry{name: "../victim"}), gitindex.Index{Astray: "../victim"}},
	"above, by a detour":    {craft(3, 20, "", entry{name: "a"}, entry{name: "a/../../victim", flags: 0x4000}), gitindex.Index{Astray: "a/../../victim"}},
	"from the root":         {craft(2, 20, "", entry{name: "/etc/passwd"}), gitindex.Index{Astray: "/etc/passwd"}},
	"itself":                {craft(2, 20, "", entry{name: "a/./b"}), gitindex.Index{Astray: "a/./b"}},
	"no name between":       {craft(2, 20, "", entry{name: "a//b"}), gitindex.Index{Astray: "a//b"}},
	"no name at the end":    {craft(2, 20, "", entry{name: "a/"}), gitindex.Index{Astray: "a/"}},
	"a sparse directory":    {craft(2, 20, "", entry{name: "a/", mode: 0o40000}), gitindex.Index{}},
	"a sparse one above":    {craft(2, 20, "", entry{name: "../", mode: 0o40000}), gitindex.Index{Astray: "../"}},
	"a gitlink above":       {craft(2, 20, "", entry{name: "a", mode: 0o160000}, entry{name: "../a", mode: 0o160000}, entry{name: "b", mode: 0o160644}), gitindex.Index{Astray: "../a", Links: []string{"a", "b"}}},
	"version 4":             {craft(4, 20, "", entry{name: "a.git/x"}, entry{name: ".git/y", strip: 7}), gitindex.Index{Astray: ".git/y"}},
	"in pieces":             {craft(4, 20, "", entry{name: "a/.g"}, entry{name: "it/x", length: 8}), gitindex.Index{Astray: "a/.git/x"}},
	"in pieces, a slash":    {craft(4, 20, "", entry{name: "a/", mode: 0o40000}, entry{name: "/x", length: 4}), gitindex.Index{Astray: "a//x"}},
	"in pieces, all of it":  {craft(4, 20, "", entry{name: "a/", mode: 0o40000}, entry{name: "", length: 2}), gitindex.Index{Astray: "a/"}},
	"in pieces, far":        {craft(4, 20, "", entry{name: "far/away/a/.x"}, entry{name: ".", strip: 1, length: 13}), gitindex.Index{Astray: "far/away/a/.."}},
	"in pieces, long":       {craft(4, 20, "", entry{name: "faraway/no.g"}, entry{name: "it", length: 14}, entry{name: "/.git", length: 19}), gitindex.Index{Astray: "faraway/no.git/.git"}},
	"in pieces, eight":      {craft(4, 20, "", entry{name: "abcd.git"}, entry{name: "/a", length: 10}), gitindex.Index{}},
	"in pieces, after it":   {craft(4, 20, "", entry{name: "..", mode: 0o160000}, entry{name: "/a", length: 4, mode: 0o160000}), gitindex.Index{Astray: ".."}},
	"what is not there":     {craft(4, 20, "", entry{name: "a"}, entry{name: "b", strip: 2}), gitindex.Index{Unread: "malformed"}},
	"a name that ends":      {craft(2, 20, "", entry{name: ".git\x00x"}), gitindex.Index{Unread: "malformed"}},
	"a name without an end": {craft(2, 20, "", entry{name: ".git/config", length: 4}), gitindex.Index{Unread: "malformed"}},
	"no name":               {craft(2, 20, "", entry{}), gitindex.Index{Unread: "malformed"}},
	"a long name":           {craft(2, 20, "", entry{name: strings.Repeat("x", 5000), length: 0xfff}), gitindex.Index{Unread: "malformed"}},
	"unknown flags":         {bytes.Replace(craft(3, 20, "", entry{name: "xyz", flags: 0x4000}), []byte(" \x00xyz"), []byte("\x80\x00xyz"), 1), gitindex.Index{Unread: "malformed"}},
	"version 5":             {craft(5, 20, ""), gitindex.Index{Unread: "malformed"}},
	"empty":                 {nil, gitindex.Index{Unread: "malformed"}},
	"too few":               {bytes.Replace(craft(2, 20, ""), []byte("\x00\x00\x00\x00\x00"), []byte("\xff\xff\xff\xff\xff"), 1), gitindex.Index{Unread: "malformed"}},
	"an unknown extension":  {craft(2, 20, extension("ZZZZ", []byte("abc")), entry{name: "x"}), gitindex.Index{}},
	"a cut one":             {craft(2, 20, extension("ZZZZ", []byte("abc"))[:10], entry{name: "x"}), gitindex.Index{Unread: "malformed"}},
	"something after it":    {craft(2, 20, extension("ZZZZ", nil)+"xyz", entry{name: "x"}), gitindex.Index{Unread: "malformed"}},
	"a shared index":        {craft(2, 20, extension("link", make([]byte, 20)), entry{}, entry{name: "x"}), gitindex.Index{Unread: "refers to a shared index"}},
	"a shared one, above":   {craft(2, 20, extension("link", make([]byte, 20)), entry{name: "../x"}), gitindex.Index{Unread: "refers to a shared index", Astray: "../x"}},
	"another end": {
		craft(2, 20, extension("ZZZZ", make([]byte, 100))+eoie(100, extension("ZZZZ", make([]byte, 100))), entry{name: "x"}),
		gitindex.Index{Unread: "malformed"},
	},
	"another end, in what is unknown": {
		craft(2, 20, extension("ZZZZ", append(make([]byte, 60), eoie(100)...)), entry{name: "x"}),
		gitindex.Index{Unread: "malformed"},
	},
	"blocks": {
		craft(4, 20, extension("IEOT", numbers(1, 12, 1, 77, 1))+eoie(142, extension("IEOT", make([]byte, 20))), entry{name: "x"}, entry{name: "y", strip: 1}),
		gitindex.Index{},
	},
	"another block": {
		craft(4, 20, extension("IEOT", numbers(1, 12, 1, 170, 1))+eoie(142, extension("IEOT", make([]byte, 20))), entry{name: "x"}, entry{name: "y", strip: 1}),
		gitindex.Index{Unread: "malformed"},
	},
	"a block too many": {
		craft(4, 20, extension("IEOT", numbers(1, 12, 1, 77, 1, 77, 1))+eoie(142, extension("IEOT", make([]byte, 28))), entry{name: "x"}, entry{name: "y", strip: 1}),
		gitindex.Index{Unread: "malformed"},
	},
	"a block that begins with another name": {
		craft(4, 20, extension("IEOT", numbers(1, 12, 1, 78, 1))+eoie(146, extension("IEOT", make([]byte, 20))), entry{name: "ab"}, entry{name: ".git", strip: 1, length: 5}),
		gitindex.Index{Unread: "malformed"},
	},
}

// TestReadCrafted defends: an index that leads git astray is known for what it is, and one
// that git may read in another way than it is read here is not taken for read.
func TestReadCrafted(t *testing.T) {
	for name, tt := range crafted {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "index")
			write(t, path, tt.index)
			if diff := cmp.Diff(tt.want, read(t, path)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestReadBothWays defends: an index that reads well with hashes of either size, and in one
// of them leads astray, is known for it where nothing says which the repository has; where
// its configuration does, that one counts alone, so that the other cannot make up for its
// faults.
func TestReadBothWays(t *testing.T) {
	const name = "../victim/\x10\x10a-good-long-name" // with longer hashes what follows the flags that are in it
	fine := craft(2, 20, extension("ZZZZ", make([]byte, 4)), entry{name: name})
	cut := craft(2, 20, extension("ZZZZ", make([]byte, 5))[:12], entry{name: name})
	none, astray, bad := gitindex.Index{}, gitindex.Index{Astray: name}, gitindex.Index{Unread: "malformed"}
	const sha1, sha256 = "[core]\n\tbare = false\n", "[extensions]\n\tobjectFormat = sha256\n"
	for _, tt := range []struct {
		config string
		index  []byte
		want   gitindex.Index
	}{{"", fine, astray}, {"", cut, none}, {sha1, fine, astray}, {sha1, cut, bad}, {sha256, fine, none}, {sha256, cut, none}} {
		dir := t.TempDir()
		if tt.config != "" {
			write(t, filepath.Join(dir, "config"), []byte(tt.config))
		}
		write(t, filepath.Join(dir, "index"), tt.index)
		if diff := cmp.Diff(tt.want, read(t, filepath.Join(dir, "index"))); diff != "" {
			t.Errorf("%q: %s", tt.config, diff)
		}
	}
}

// TestReadManyLinks defends: the list of gitlinks is bounded, and what is left out is said.
func TestReadManyLinks(t *testing.T) {
	var entries []entry
	for i := range gitindex.MaxLinks + 1 {
		entries = append(entries, entry{mode: 0o160000, name: strings.Repeat("x", i+1)})
		path := filepath.Join(t.TempDir(), "index")
		if i < gitindex.MaxLinks-1 {
			continue
		}
		write(t, path, craft(2, 20, "", entries...))
		got := read(t, path)
		if len(got.Links) != gitindex.MaxLinks || (got.Unread != "") != (i == gitindex.MaxLinks) {
			t.Errorf("%d links, %q", len(got.Links), got.Unread)
		}
	}
}

// FuzzRead defends: no file makes the reader fail, and what it says is in its bounds.
func FuzzRead(f *testing.F) {
	for _, tt := range crafted {
		f.Add(tt.index)
	}
	path := filepath.Join(f.TempDir(), "index")
	f.Fuzz(func(t *testing.T, data []byte) {
		write(t, path, data)
		got := read(t, path)
		if len(got.Links) > gitindex.MaxLinks {
			t.Errorf("%d links", len(got.Links))
		}
		for _, link := range got.Links {
			if !filepath.IsLocal(link) || filepath.Clean(link) != link {
				t.Errorf("leads astray: %q", link)
			}
		}
	})
}
