package isolate

import (
	"path/filepath"
	"slices"
	"strings"
)

// Kept is a group of files that programs keep in a home directory and guard hides.
type Kept struct {
	// What names the group for a person.
	What string
	// Names are relative to the home directory.
	Names []string
}

// HiddenInHome lists what guard hides of a home directory: where the common programs
// keep keys, tokens and passwords, where engines have their sockets, and where shells and
// consoles keep what was typed. A directory is hidden whole where a command needs nothing
// of it: a single file comes to light when a program outside replaces it.
func HiddenInHome() []Kept {
	return []Kept{
		{"keys", []string{".ssh", ".gnupg", ".password-store", ".local/share/keyrings"}},
		{"clouds", []string{
			".aws", ".azure", ".config/gcloud", ".kube", ".config/rclone", ".terraform.d/credentials.tfrc.json",
			".vault-token", ".config/doctl", ".s3cfg", ".boto",
		}},
		{"forges and registries", []string{
			".git-credentials", ".config/git/credentials", ".config/gh", ".config/hub", ".config/glab-cli",
			".npmrc", ".pypirc", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml",
			".docker", ".config/containers",
		}},
		{"engines and screens", []string{".colima", ".lima", ".orbstack", ".rd", ".Xauthority"}},
		{"agents", []string{".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".credentials.json"}},
		{"passwords", []string{".netrc", ".pgpass", ".my.cnf"}},
		{"histories", []string{
			".bash_history", ".zsh_history", ".zhistory", ".histfile", ".sh_history", ".ash_history", ".ksh_history",
			".local/share/fish/fish_history", ".python_history", ".node_repl_history", ".irb_history", ".psql_history",
			".mysql_history", ".mariadb_history", ".sqlite_history", ".rediscli_history", ".lesshst", ".viminfo",
		}},
	}
}

// Credentials lists what guard hides for a user with this home directory. config is the
// user's base directory of configurations: what lies in .config by default is hidden
// there too. "": there is no other.
func Credentials(home, config string) []string {
	var out []string
	for _, kept := range HiddenInHome() {
		for _, name := range kept.Names {
			out = append(out, filepath.Join(home, name))
			if rest, ok := strings.CutPrefix(name, ".config/"); ok && config != "" {
				out = append(out, filepath.Join(config, rest))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
