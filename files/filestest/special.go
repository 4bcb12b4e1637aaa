package filestest

import (
	"context"
	"io/fs"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func specialCases() []Case {
	return []Case{
		{Name: "FIFO", Rule: "CodeNotRegular (FIFO, device, socket; never opened, so never blocked on).", need: needFIFO, Run: fifo},
		{Name: "ReadDevice", Rule: "CodeNotRegular (FIFO, device, socket; never opened, so never blocked on).", need: needDevice, Run: readDevice},
		{Name: "WriteOntoDevice", Rule: "CodeNotReplaceable (mount point or device under Write).", need: needDevice, Run: writeOntoDevice},
		{Name: "WriteOntoMountPoint", Rule: "CodeNotReplaceable (mount point or device under Write).", need: needMount, Run: writeOntoMountPoint},
		{Name: "MountPointStays", Rule: "CodeNotReplaceable, CodeNotWritable say what they say: a mount point is neither replaced nor moved nor removed.", need: needMount, Run: mountPointStays},
		{Name: "SearchDevices", Rule: "CodeNotRegular (FIFO, device, socket; never opened, so never blocked on).", need: needDevice, Run: searchDevices},
	}
}

// promptly runs call and reports one that takes so long that it must have waited
// for something.
func promptly(t T, what string, call func() error) error {
	t.Helper()
	began := time.Now()
	err := call()
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("%s took %v", what, d)
	}
	return err
}

func fifo(ctx context.Context, t T, e Env) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	e.mkfifo(ctx, t, e.path("fifo"))
	for _, o := range []files.OpenOptions{{}, {NoFollow: true}, {MaxBytes: 5}, {Offset: 1}} {
		err := promptly(t, "opening a FIFO", func() error { return e.open(ctx, e.path("fifo"), o) })
		wantCode(t, "open a FIFO", err, spec.CodeNotRegular)
	}
	err := promptly(t, "writing a FIFO", func() error {
		return e.writeString(ctx, e.path("fifo"), noise(256<<10, 12), files.WriteOptions{})
	})
	wantCode(t, "write a FIFO", err, spec.CodeNotReplaceable)
	if info := e.stat(ctx, t, e.path("fifo")); info.Mode.Type() != fs.ModeNamedPipe {
		t.Errorf("the FIFO has become %v", info.Mode)
	}
	_, err = files.ReadDir(ctx, e.FS, e.path("fifo"), 0)
	wantCode(t, "list a FIFO", err, spec.CodeNotDirectory)
	wantCode(t, "write below a FIFO", e.writeString(ctx, e.path("fifo/x"), "x", files.WriteOptions{}), spec.CodeNotDirectory)
	e.contains(ctx, t, e.Dir, "fifo")
	if err := e.FS.Remove(ctx, e.path("fifo"), files.RemoveOptions{}); err != nil {
		t.Errorf("remove a FIFO: %v", err)
	}
}

func readDevice(ctx context.Context, t T, e Env) {
	for _, name := range []string{"/dev/null", "/dev/zero"} {
		err := promptly(t, "opening a device", func() error { return e.open(ctx, name, files.OpenOptions{MaxBytes: 10}) })
		wantCode(t, "open "+name, err, spec.CodeNotRegular)
	}
}

func writeOntoDevice(ctx context.Context, t T, e Env) {
	for _, size := range []int{0, 10, 256 << 10} {
		err := promptly(t, "writing a device", func() error {
			return e.writeString(ctx, "/dev/null", noise(size, 13), files.WriteOptions{})
		})
		wantCode(t, "write /dev/null", err, spec.CodeNotReplaceable)
	}
	if info := e.stat(ctx, t, "/dev/null"); info.Mode&fs.ModeCharDevice == 0 {
		t.Errorf("/dev/null has become %v", info.Mode)
	}
	e.noResidue(ctx, t, "/dev")
}

func writeOntoMountPoint(ctx context.Context, t T, e Env) {
	before, err := files.ReadFile(ctx, e.FS, mountPoint, 0)
	if err != nil {
		t.Fatalf("read %s: %v", mountPoint, err)
	}
	for _, size := range []int{3, 256 << 10} {
		wantCode(t, "write "+mountPoint, e.writeString(ctx, mountPoint, noise(size, 14), files.WriteOptions{}), spec.CodeNotReplaceable)
	}
	e.holds(ctx, t, mountPoint, string(before))
	e.noResidue(ctx, t, "/etc")
}

func mountPointStays(ctx context.Context, t T, e Env) {
	before, err := files.ReadFile(ctx, e.FS, mountPoint, 0)
	if err != nil {
		t.Fatalf("read %s: %v", mountPoint, err)
	}
	e.write(ctx, t, e.path("f"), "new")
	wantCode(t, "copy onto "+mountPoint, files.Copy(ctx, e.FS, e.path("f"), mountPoint, files.CopyOptions{Overwrite: true}), spec.CodeNotReplaceable)
	for what, err := range map[string]error{
		"a batch onto":  e.batch(ctx, t, 0, batchFile(mountPoint, "new")),
		"a rename onto": e.FS.Rename(ctx, e.path("f"), mountPoint, files.RenameOptions{Overwrite: true}),
		"a rename of":   e.FS.Rename(ctx, mountPoint, e.path("hosts"), files.RenameOptions{}),
		"a removal of":  e.FS.Remove(ctx, mountPoint, files.RemoveOptions{Recursive: true}),
	} {
		switch spec.CodeOf(err) {
		case spec.CodeNotWritable, spec.CodeUnsupported: // which may be found first: a read-only root, another file system
		default:
			wantCode(t, what+" "+mountPoint, err, spec.CodeNotReplaceable)
		}
	}
	e.holds(ctx, t, mountPoint, string(before))
	e.noResidue(ctx, t, "/etc")
	e.contains(ctx, t, e.Dir, "f")
}

func searchDevices(ctx context.Context, t T, e Env) {
	_ = promptly(t, "searching devices", func() error {
		found := false
		for m, err := range files.Glob(ctx, e.FS, files.GlobOptions{Dir: "/dev", Pattern: "*", Types: files.GlobOther}) {
			if err != nil {
				t.Errorf("glob: %v", err)
				break
			}
			found = found || m.Path == "null"
		}
		if !found {
			t.Errorf("glob does not find /dev/null")
		}
		for line, err := range files.Grep(ctx, e.FS, files.GrepOptions{Pattern: "x", Files: files.GlobOptions{Dir: "/dev", Pattern: "{null,zero,full,random,tty}"}}) {
			t.Errorf("grep of devices yields %+v, %v", line, err)
		}
		wantCode(t, "copy a device", files.Copy(ctx, e.FS, "/dev/null", e.path("null"), files.CopyOptions{}), spec.CodeNotRegular)
		return nil
	})
	e.contains(ctx, t, e.Dir)
}
