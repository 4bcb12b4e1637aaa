package filescmd

import (
	"bufio"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
)

// fileLine is one file as JSON has it.
type fileLine struct {
	files.JSONPath
	Type      string    `json:"type"`
	SizeBytes int64     `json:"size_bytes"`
	Mode      string    `json:"mode"` // octal
	ModTime   time.Time `json:"mod_time,omitzero"`
	UID       int       `json:"uid"`
	GID       int       `json:"gid"`
	Links     uint64    `json:"links"`
	Target    string    `json:"target,omitempty"`
	TargetB64 string    `json:"target_b64,omitempty"`
}

func newFileLine(name string, i files.Info) fileLine {
	l := fileLine{
		JSONPath: files.ToJSON(name), Type: typeName(i.Mode), SizeBytes: i.Size, Mode: octal(i.Mode),
		ModTime: i.ModTime, UID: i.UID, GID: i.GID, Links: i.Links,
	}
	target := files.ToJSON(i.Target)
	l.Target, l.TargetB64 = target.Path, target.PathB64
	return l
}

// nameLine is a file of which only name and type are known.
type nameLine struct {
	files.JSONPath
	Type string `json:"type"`
}

func typeName(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "directory"
	case fs.ModeSymlink:
		return "link"
	case fs.ModeNamedPipe:
		return "fifo"
	case fs.ModeSocket:
		return "socket"
	}
	return "device"
}

func octal(mode fs.FileMode) string { return fmt.Sprintf("%04o", mode.Perm()) }

// printer writes the results of a verb, one line for each or with null one name ended by
// a NUL byte. Its memory does not grow with them. The caller calls flush.
type printer struct {
	env  *verb.Env
	null bool
	w    *bufio.Writer
	live bool // a person looks at it
}

func newPrinter(env *verb.Env, null bool) *printer {
	return &printer{env: env, null: null, w: bufio.NewWriterSize(env.Stdout, 32<<10), live: console.Terminal(env.Stdout)}
}

// name writes a name: byte for byte with null, else made harmless.
func (p *printer) name(name string) error {
	if p.null {
		return p.line(name, "\x00")
	}
	return p.line(console.Clean(name), "\n")
}

// long writes a file and what is known of it in columns.
func (p *printer) long(name string, i files.Info) error {
	text := fmt.Sprintf("%s %3d %5d %5d %10d %s %s", i.Mode, i.Links, i.UID, i.GID, i.Size, i.ModTime.UTC().Format("2006-01-02T15:04:05Z"), console.Clean(name))
	if i.Target != "" {
		text += " -> " + console.Clean(i.Target)
	}
	return p.line(text, "\n")
}

func (p *printer) line(text, end string) error {
	p.w.WriteString(text)
	_, err := p.w.WriteString(end)
	if err == nil && p.live {
		err = p.w.Flush()
	}
	return err
}

// json writes an object.
func (p *printer) json(v any) error {
	c := *p.env
	c.Stdout = p.w
	err := c.Print(v)
	if err == nil && p.live {
		err = p.w.Flush()
	}
	return err
}

// flush writes what is left, and returns err or else the error of writing.
func (p *printer) flush(err error) error {
	if failed := p.w.Flush(); err == nil {
		err = failed
	}
	return err
}

// rows describe a file for a person.
func rows(name string, i files.Info) [][]string {
	rows := [][]string{
		{"path", name},
		{"type", typeName(i.Mode)},
		{"size", strconv.FormatInt(i.Size, 10)},
		{"mode", octal(i.Mode)},
		{"modified", i.ModTime.UTC().Format(time.RFC3339Nano)},
		{"owner", fmt.Sprintf("%d:%d", i.UID, i.GID)},
		{"hard links", strconv.FormatUint(i.Links, 10)},
	}
	if i.Target != "" {
		rows = append(rows, []string{"points to", i.Target})
	}
	return rows
}
