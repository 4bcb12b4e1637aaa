package isolate

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Sockets lists the sockets that an environment names: container engines, key agents,
// message buses, editors - whatever listens there acts for the user. The names are free
// of links. What is no socket is passed over.
func Sockets(environ []string) []string {
	var out []string
	for _, entry := range environ {
		_, value, _ := strings.Cut(entry, "=")
		for _, prefix := range []string{"unix://", "unix:path=", "unix:"} {
			value = strings.TrimPrefix(value, prefix)
		}
		// A name may be followed by more, as in "path,pid,window".
		value, _, _ = strings.Cut(value, ",")
		if !filepath.IsAbs(value) {
			continue
		}
		w, err := trace(value)
		if err != nil {
			continue
		}
		if info, err := os.Lstat(w.target); err == nil && info.Mode().Type() == fs.ModeSocket {
			out = append(out, w.target)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// SocketDirs lists the directories in which programs of this user put the sockets by
// which they are commanded, and which a program may want to use inside as well: window
// systems, and in each of dirs, which are for temporary files, the terminal multiplexer.
func SocketDirs(uid int, dirs ...string) []string {
	out := []string{"/tmp/.ICE-unix", "/tmp/.X11-unix"}
	for _, dir := range dirs {
		out = append(out, filepath.Join(dir, "tmux-"+strconv.Itoa(uid)))
	}
	return out
}
