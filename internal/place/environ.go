package place

import "strings"

// BaseEnv picks from an environment what a guest gets of it: what says who and where
// the user is, and nothing that could hold a secret or change what a program does.
func BaseEnv(environ []string) []string {
	var out []string
	for _, entry := range environ {
		name, _, ok := strings.Cut(entry, "=")
		if !ok {
			continue
		}
		switch name {
		case "PATH", "HOME", "SHELL", "LANG", "USER", "LOGNAME", "TERM", "TMPDIR", "TZ":
			out = append(out, entry)
		default:
			if strings.HasPrefix(name, "LC_") {
				out = append(out, entry)
			}
		}
	}
	return out
}
