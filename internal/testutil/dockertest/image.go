//go:build linux

package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
)

const busyboxPath = "/bin/busybox"

// OfTheImage are the conformance cases in which it may matter what the image is, who its
// user is and what can be written: outside of the soak the others are left to one image.
var OfTheImage = regexp.MustCompile("^(Exec|Env|Caps|Files(Read|Write|Mkdir|List|Stat|Rename|Remove|Perm|Chmod)|Root|Setup|Provision|Attach|Workdir|User|Guest|Kill|" +
	"Terminal(Is|Re|Ends)|Job(Ends|Runs|Is)|Hostile|Suspend|Snapshot|Tree|FilesTree|Ports(Reach|Are)|Events(End|Are))")

// Image names one of the images for tests.
type Image struct {
	// Kind is Busybox, NoShell or Scratch.
	Kind Kind
	// UID is the image's user. 0: root, which is left unsaid, as most images do.
	UID int
	// UserName has the image name its user ("app") instead of numbering it.
	// Busybox only, where uid 1000 is "app" in /etc/passwd.
	UserName bool
}

// Kind is what an image holds.
type Kind string

// The kinds of images.
const (
	// Busybox is a small Unix: /bin/sh and every applet, /etc/passwd, /tmp.
	Busybox Kind = "busybox"
	// NoShell has true, false, echo, cat, env, pwd, sleep, id and ls in /bin,
	// and no shell.
	NoShell Kind = "noshell"
	// Scratch holds one file, the program /true.
	Scratch Kind = "scratch"
)

// imageVersion is part of each image's tag: it changes when the contents do, so
// that an engine that is kept between runs never serves an old image.
const imageVersion = "1"

// Image makes sure that the engine has the image and returns its name. All images
// are made on this machine, from its static busybox.
func (e *Engine) Image(t testing.TB, i Image) string {
	t.Helper()
	api := e.Client(t)
	e.mu.Lock()
	defer e.mu.Unlock()
	name := i.name()
	if e.images[name] {
		return name
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := api.ImageInspect(ctx, name); err != nil {
		if err := importImage(ctx, api, i); err != nil {
			t.Fatalf("import image %s: %v", name, err)
		}
	}
	e.images[name] = true
	return name
}

func (i Image) name() string {
	return fmt.Sprintf("berth-test/%s:%s-%s", i.Kind, imageVersion, i.user("root"))
}

func (i Image) user(root string) string {
	switch {
	case i.UserName:
		return "app"
	case i.UID != 0:
		return strconv.Itoa(i.UID)
	}
	return root
}

func importImage(ctx context.Context, api *client.Client, i Image) error {
	content, err := rootfs(i.Kind)
	if err != nil {
		return err
	}
	var changes []string
	if user := i.user(""); user != "" {
		changes = append(changes, "USER "+user)
	}
	res, err := api.ImageImport(ctx, client.ImageImportSource{Source: content, SourceName: "-"}, i.name(), client.ImageImportOptions{Changes: changes})
	if err != nil {
		return err
	}
	defer res.Close()
	// The status is 200 before the work is done: a failure is in the body.
	dec := json.NewDecoder(res)
	for {
		var line struct {
			Error string `json:"error"`
		}
		if err := dec.Decode(&line); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if line.Error != "" {
			return errors.New(line.Error)
		}
	}
}

func rootfs(k Kind) (io.Reader, error) {
	program, err := os.ReadFile(busyboxPath)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := &layer{tar: tar.NewWriter(&buf)}
	switch k {
	case Busybox:
		out, err := exec.Command(busyboxPath, "--list").Output()
		if err != nil {
			return nil, err
		}
		w.dir("bin/", 0o755)
		w.dir("etc/", 0o755)
		w.dir("root/", 0o700)
		w.dir("tmp/", 0o1777)
		w.file("bin/busybox", 0o755, program)
		for _, applet := range strings.Fields(string(out)) {
			if applet != "busybox" {
				w.link("bin/"+applet, "bin/busybox")
			}
		}
		w.file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000:app:/:/bin/sh\n"))
		w.file("etc/group", 0o644, []byte("root:x:0:\napp:x:1000:\n"))
	case NoShell:
		w.dir("bin/", 0o755)
		w.file("bin/true", 0o755, program)
		for _, applet := range []string{"false", "echo", "cat", "env", "pwd", "sleep", "id", "ls"} {
			w.link("bin/"+applet, "bin/true")
		}
	case Scratch:
		w.file("true", 0o755, program)
	default:
		return nil, fmt.Errorf("no such kind of image: %q", k)
	}
	return &buf, w.close()
}

// layer writes the tar of a root file system and remembers the first error.
type layer struct {
	tar *tar.Writer
	err error
}

func (l *layer) dir(name string, mode int64) {
	l.add(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode}, nil)
}

func (l *layer) file(name string, mode int64, data []byte) {
	l.add(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data))}, data)
}

func (l *layer) link(name, target string) {
	l.add(&tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target, Mode: 0o755}, nil)
}

func (l *layer) add(h *tar.Header, data []byte) {
	if l.err != nil {
		return
	}
	if l.err = l.tar.WriteHeader(h); l.err == nil {
		_, l.err = l.tar.Write(data)
	}
}

func (l *layer) close() error { return errors.Join(l.err, l.tar.Close()) }
