package view_test

import (
	"testing"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/memfs"
	"github.com/berth-dev/berth/files/view"
	"github.com/berth-dev/berth/spec"
)

// A View that makes no sense is refused before it is used.
func TestValidate(t *testing.T) {
	mounts := func(pairs ...string) (m []view.Mount) {
		for i := 0; i < len(pairs); i += 2 {
			m = append(m, view.Mount{Name: pairs[i], Source: pairs[i+1]})
		}
		return m
	}
	for name, v := range map[string]view.View{
		"no mounts":       {},
		"relative name":   {Mounts: mounts("work", "/x")},
		"relative source": {Mounts: mounts("/work", "x")},
		"unclean name":    {Mounts: mounts("/work/", "/x")},
		"unclean source":  {Mounts: mounts("/work", "/x/../y")},
		"empty":           {Mounts: mounts("", "/x")},
		"NUL":             {Mounts: mounts("/a\x00", "/x")},
		"one in another":  {Mounts: mounts("/work", "/x", "/work/in", "/y")},
		"one twice":       {Mounts: mounts("/work", "/x", "/work", "/y")},
		"workdir outside": {Workdir: "/else", Mounts: mounts("/work", "/x")},
		"workdir beside":  {Workdir: "/workdir", Mounts: mounts("/work", "/x")},
		"workdir relative": {
			Workdir: "work", Mounts: mounts("/work", "/x"),
		},
	} {
		if err := v.Validate(); spec.CodeOf(err) != spec.CodeInvalid {
			t.Errorf("%s: %v, want %s", name, err, spec.CodeInvalid)
		}
		if _, err := view.Mounted(v, memfs.New("/")); err == nil {
			t.Errorf("%s: an FS is made of it", name)
		}
	}
	for _, v := range []view.View{{Mounts: mounts("/", "/")}, {Workdir: "/b/c", Mounts: mounts("/a", "/x", "/b", "/x/y")}} {
		if err := v.Validate(); err != nil {
			t.Errorf("%+v: %v", v, err)
		}
	}
}

// Of two spellings that a name could have it has the mounted one; of several sources
// it lies in the innermost.
func TestLocate(t *testing.T) {
	v := view.View{Workdir: "/work/sub", Mounts: []view.Mount{
		{Name: "/work", Source: "/home/me/project"},
		{Name: "/skills", Source: "/home/me/project/skills", ReadOnly: true},
		{Name: "/home/me", Source: "/srv/home"},
	}}
	for name, want := range map[string][2]string{
		"x":                          {"/work/sub/x", "/home/me/project/sub/x"},
		"../x/":                      {"/work/x/", "/home/me/project/x/"},
		"/work":                      {"/work", "/home/me/project"},
		"/work/":                     {"/work/", "/home/me/project/"},
		"/work/skills/x":             {"/work/skills/x", "/home/me/project/skills/x"},
		"/srv/home/a":                {"/home/me/a", "/srv/home/a"},
		"/home/me/project/skills/x":  {"/home/me/project/skills/x", "/srv/home/project/skills/x"},
		"\xff\n":                     {"/work/sub/\xff\n", "/home/me/project/sub/\xff\n"},
		"/work/../skills/./a":        {"/skills/a", "/home/me/project/skills/a"},
		"/work/sub/../../skills/../": {"", ""},
		"/":                          {"", ""},
		"../../..":                   {"", ""},
		"/workx":                     {"", ""},
	} {
		l, err := v.Locate(name)
		if want[0] == "" {
			if spec.CodeOf(err) != spec.CodeInvalidPath {
				t.Errorf("%q: %+v, %v; want %s", name, l, err, spec.CodeInvalidPath)
			}
			continue
		}
		if err != nil || l.Name != want[0] || l.Source != want[1] {
			t.Errorf("%q: %q from %q, %v; want %q from %q", name, l.Name, l.Source, err, want[0], want[1])
		}
	}
	other := view.View{Mounts: []view.Mount{{Name: "/a", Source: "/x"}, {Name: "/b", Source: "/x/y", ReadOnly: true}}}
	if l, err := other.Locate("/x/y/z"); err != nil || l.Name != "/b/z" || !l.Mount.ReadOnly {
		t.Errorf("%+v, %v; want the innermost source", l, err)
	}
}

// The cause of an error may be anything; its path is a mounted one.
func TestErrorsNameNoSource(t *testing.T) {
	under := memfs.New("/host/work")
	fsys, err := view.Mounted(view.View{Mounts: []view.Mount{{Name: "/w", Source: "/host/work"}}}, under)
	if err != nil {
		t.Fatal(err)
	}
	_, err = files.ReadFile(t.Context(), fsys, "missing", 0)
	if got := err.Error(); got != `"/w/missing": no such file` {
		t.Errorf("%s", got)
	}
}
