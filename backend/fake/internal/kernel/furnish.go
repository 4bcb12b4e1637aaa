package kernel

import (
	"context"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/memfs"
)

// Furnish makes the files that a system begins with, its programs among them, and
// directories of its maker's.
func Furnish(fs *memfs.FS, programs map[string]Main, dirs ...string) error {
	ctx := context.Background()
	for _, dir := range append([]string{"/usr/bin", "/usr/local/bin", "/tmp", "/var/tmp", "/root", "/etc", "/dev", "/proc"}, dirs...) {
		if err := fs.Mkdir(ctx, dir, files.MkdirOptions{Parents: true}); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"/bin": "usr/bin", "/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2",
	} {
		if err := fs.Symlink(target, name); err != nil {
			return err
		}
	}
	for _, name := range []string{"/dev/null", "/dev/zero", "/dev/full", TTYName} {
		if err := fs.Mkdev(name); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "/etc/group": "root:x:0:\n", "/etc/hostname": "fake\n", "/etc/hosts": "127.0.0.1 localhost\n",
	} {
		if err := files.WriteFile(ctx, fs, name, []byte(text), files.WriteOptions{}); err != nil {
			return err
		}
	}
	for name := range programs {
		if err := Install(fs, "/usr/bin/"+name, name); err != nil {
			return err
		}
	}
	return nil
}
