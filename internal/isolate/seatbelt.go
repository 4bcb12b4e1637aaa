package isolate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// Seatbelt returns the profile of macOS's sandbox-exec that is to hold what Guard holds
// on Linux: everything can be read but what is hidden and the homes of others, and only
// the writable roots can be written, without what is protected in them. Nothing of it has
// been run; no backend uses it. Paths are taken as they are given: on macOS /tmp and /var
// are links into /private, and the kernel compares what they lead to.
//
// Of several rules that apply to a request the last one decides, so that the order is the
// meaning here too.
func Seatbelt(p Policy) string {
	var b strings.Builder
	rule := func(what string, paths []string) {
		paths = slices.Compact(slices.Sorted(slices.Values(paths)))
		if len(paths) == 0 {
			return
		}
		b.WriteString("(" + what)
		for _, path := range paths {
			fmt.Fprintf(&b, "\n  (subpath %s)", quoted(filepath.Clean(path)))
		}
		b.WriteString(")\n")
	}
	roots := slices.Concat([]string{p.Workdir}, p.WritableRoots, p.OptionalRoots, p.Temporary)
	b.WriteString("(version 1)\n(allow default)\n(deny file-write*)\n")
	b.WriteString("(allow file-write-data (require-all (vnode-type CHARACTER-DEVICE) (subpath \"/dev\")))\n")
	rule("deny file-read* file-write*", slices.DeleteFunc(slices.Clone(p.OtherHomes), func(home string) bool {
		return slices.Contains(p.Homes, home)
	}))
	rule("allow file-read*", p.Homes)
	if p.State != "" {
		rule("deny file-read* file-write*", []string{p.State})
	}
	rule("allow file-read* file-write*", roots)
	var protected []string
	for _, root := range slices.Concat([]string{p.Workdir}, p.WritableRoots) {
		for _, name := range inTree {
			protected = append(protected, filepath.Join(root, name))
		}
		for _, part := range inGit {
			if !strings.Contains(part, "*") {
				protected = append(protected, filepath.Join(root, ".git", part))
			}
		}
	}
	for _, home := range p.Homes {
		for _, name := range inHome {
			protected = append(protected, filepath.Join(home, name))
		}
	}
	rule("deny file-write*", slices.Concat(protected, p.Protected, []string{p.Program}))
	rule("deny file-read* file-write*", p.Hidden)
	b.WriteString("(deny network-outbound (remote unix-socket))\n")
	if p.Network != spec.NetworkOpen {
		b.WriteString("(deny network*)\n")
	}
	b.WriteString("(deny signal (target others))\n(deny process-info* (target others))\n(deny mach-priv-task-port (target others))\n")
	return b.String()
}

// quoted is a path as a string of the profile's language.
func quoted(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
}
