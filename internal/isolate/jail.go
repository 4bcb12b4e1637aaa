package isolate

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/berth-dev/berth/spec"
)

// systemDirs are the directories of a system that exist in a jail, those that are there.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// systemFiles are the parts of /etc that exist in a jail, those that are there: what
// programs need to be started, to speak to others in the right language and at the right
// time, and to know whom to trust. None holds a secret.
var systemFiles = []string{
	"alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "fonts", "gai.conf", "host.conf", "java-*",
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime", "lsb-release", "magic", "mime.types", "os-release", "perl",
	"pki/ca-trust", "pki/tls/certs", "pki/tls/openssl.cnf", "protocols", "python3*", "rpc", "services",
	"ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone",
}

// Jail returns the wall in which only the directories of the system, a part of /etc, the
// writable roots and the program exist, and empty directories for what is temporary and
// for the home directory: at the paths that they have outside. It refuses what Guard
// refuses. A hidden path that is outside of all that is hidden anyway.
func Jail(p Policy, argv []string) (Wall, error) {
	l, err := p.resolve(true)
	if err != nil {
		return Wall{}, err
	}
	shown := etcFiles(p.Network)
	mounts := system(shown)
	for _, name := range madeFiles(p.Network) {
		mounts = append(mounts, "--ro-bind", filepath.Join(p.Etc, name), filepath.Join("/etc", name))
	}
	for _, dir := range p.Shown {
		mounts = append(append(mounts, passage(dir)...), "--ro-bind", dir, dir)
	}
	return l.build(&p, mounts, argv)
}

// system are the mounts of every jail, with the files of etc.
func system(etc []string) []string {
	args := append(systemMounts(), "--dir", "/etc", "--dir", "/run")
	for _, path := range etc {
		if dir := filepath.Dir(path); dir != "/etc" {
			args = append(args, passage(path)...)
		}
		args = append(args, "--ro-bind", path, path)
	}
	return append(args, kernel()...)
}

// passage makes the directories that lead to path. The wrapper
// would make them for who starts it alone.
func passage(path string) []string {
	var args []string
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		args = append([]string{"--dir", dir}, args...)
	}
	return args
}

// furnish gives a jail what it has of its own, and what it has of the system.
func (l *layout) furnish(p *Policy) {
	l.system = systemDirs
	seen := map[string]bool{}
	add := func(dir, perms string) {
		dir = filepath.Clean(dir)
		if dir == "/" || !filepath.IsAbs(dir) || seen[dir] || l.rootOf(dir) != "" || holding(slices.Concat(systemDirs, kernelDirs, []string{"/etc"}), dir) != "" {
			return
		}
		seen[dir] = true
		l.own = append(l.own, own{dir, perms})
	}
	for _, dir := range p.Temporary {
		add(dir, "1777")
	}
	for _, home := range p.Homes {
		add(home, private)
	}
}

// systemMounts show the directories of the system as they are: some are links.
func systemMounts() []string {
	var args []string
	for _, dir := range systemDirs {
		info, err := os.Lstat(dir)
		switch {
		case err != nil:
		case info.IsDir():
			args = append(args, "--ro-bind", dir, dir)
		default:
			if target, err := os.Readlink(dir); err == nil {
				args = append(args, "--symlink", target, dir)
			}
		}
	}
	return args
}

// etcFiles lists what is shown of the machine's own /etc.
func etcFiles(network spec.Network) []string {
	names := systemFiles
	if network == spec.NetworkOpen {
		names = append([]string{"hosts", "resolv.conf"}, names...)
	}
	var out []string
	for _, name := range names {
		found, _ := filepath.Glob(filepath.Join("/etc", name)) // of patterns that are well formed
		for _, path := range found {
			if _, err := trace(path); err == nil {
				out = append(out, path)
			}
		}
	}
	return out
}
