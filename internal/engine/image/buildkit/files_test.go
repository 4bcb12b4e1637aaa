package buildkit

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// asked is what an engine gets in one call for files: the paths that it is told of, their
// content as far as it asks for it, whether the call ends, and in which state.
type asked struct {
	Paths   []string
	Content string
	Ended   bool
	Status  string
}

// ask makes a call for a directory and sends messages, each once everything before it has been
// answered.
func ask(t *testing.T, engine *http.Client, dir string, messages ...string) (got asked) {
	t.Helper()
	body, w := io.Pipe()
	defer w.Close()
	r, err := http.NewRequest(http.MethodPost, "http://client"+fileSync, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("dir-name", dir)
	res, err := engine.Do(r)
	if err != nil {
		t.Errorf("%q: %v", dir, err)
		return got
	}
	defer res.Body.Close()
	next := func() {
		if len(messages) > 0 {
			if _, err := io.WriteString(w, messages[0]); err == nil {
				messages = messages[1:]
				return
			}
		}
		w.Close()
	}
	for {
		message, err := readLarge(res.Body)
		if err != nil {
			got.Status = res.Trailer.Get("Grpc-Status")
			return got
		}
		var kind packet
		var data, described []byte
		if err := fields(message, func(f field) error {
			switch f.number {
			case 1:
				kind = packet(f.value)
			case 2:
				described = f.data
			case 4:
				data = f.data
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		switch {
		case kind == packetStat && described != nil:
			_ = fields(described, func(f field) error {
				if f.number == 1 {
					got.Paths = append(got.Paths, string(f.data))
				}
				return nil
			})
		case kind == packetStat, kind == packetData && len(data) == 0:
			next()
		case kind == packetData:
			got.Content += string(data)
		case kind == packetEnd:
			got.Ended = true
			next()
		}
	}
}

// readLarge is readMessage without a bound.
func readLarge(r io.Reader) ([]byte, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	message := make([]byte, int(head[1])<<24|int(head[2])<<16|int(head[3])<<8|int(head[4]))
	_, err := io.ReadFull(r, message)
	return message, err
}

// An engine is told of the files of a directory in the order that it wants, and gets those that
// it asks for by their number; nothing that it says gets it another file, or keeps a call. What
// cannot be read ends the call, and is the session's error.
func TestFiles(t *testing.T) {
	content := func(text string) func() (io.ReadCloser, error) { return Bytes([]byte(text)) }
	broken := errors.New("broken")
	large := strings.Repeat("x", 3*pieceSize+1)
	dirs := map[string][]File{
		ContextDir: {
			{Path: "a", Mode: fs.ModeDir | 0o755},
			{Path: "a.b", Mode: 0o644, Open: content("2")},
			{Path: "a/c", Mode: 0o644, Open: content(large)},
			{Path: "l", Mode: fs.ModeSymlink | 0o777, Link: "a"},
			{Path: "broken", Mode: 0o644, Open: func() (io.ReadCloser, error) {
				return io.NopCloser(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken))), nil
			}},
		},
		DockerfileDir: {{Path: Dockerfile, Mode: 0o644, Open: content("FROM scratch")}},
	}
	request := func(id int) string {
		return string(appendFrame(nil, message(1, int(packetRequest), 3, id)))
	}
	end := string(appendFrame(nil, message(1, int(packetEnd))))
	paths := []string{"a", "a/c", "a.b", "broken", "l"}
	refused := asked{Paths: paths, Status: "10"}
	calls := []struct {
		name, dir string
		messages  []string
		want      asked
	}{
		{"all", ContextDir, []string{request(1), request(2), end}, asked{paths, large + "2", true, "0"}},
		{"none", ContextDir, []string{end}, asked{paths, "", true, "0"}},
		{"the other", DockerfileDir, []string{request(0), end}, asked{[]string{Dockerfile}, "FROM scratch", true, "0"}},
		{"no such directory", "secrets", nil, asked{Status: "12"}},
		{"no directory", "", nil, asked{Status: "12"}},
		{"a directory's content", ContextDir, []string{request(0)}, refused},
		{"a link's content", ContextDir, []string{request(4)}, refused},
		{"no such file", ContextDir, []string{request(5)}, refused},
		{"far from any file", ContextDir, []string{request(1 << 40)}, refused},
		{"its own file", ContextDir, []string{string(appendFrame(nil, message(1, int(packetData), 3, 1, 4, "x")))}, refused},
		{"a failure", ContextDir, []string{string(appendFrame(nil, message(1, int(packetError), 4, "no")))}, refused},
		{"no fields", ContextDir, []string{string(appendFrame(nil, []byte{0x0f}))}, refused},
		{"huge", ContextDir, []string{"\x00\xff\xff\xff\xff"}, refused},
		{"nothing more", ContextDir, nil, refused},
		{"one that cannot be read", ContextDir, []string{request(3)}, asked{paths, "half", false, "10"}},
	}
	var got []asked
	done := make(chan struct{})
	api := engineThat(t, func(conn net.Conn, r *http.Request) {
		defer close(done)
		if methods := r.Header.Values("X-Docker-Expose-Session-Grpc-Method"); !slices.Contains(methods, fileSync) {
			t.Errorf("methods %q", methods)
		}
		if _, err := io.WriteString(conn, upgraded); err != nil {
			t.Error(err)
		}
		engine := grpcClient(conn)
		defer engine.CloseIdleConnections()
		for _, c := range calls {
			got = append(got, ask(t, engine, c.dir, c.messages...))
		}
	})
	s, err := Open(t.Context(), api, nil, dirs)
	if err != nil {
		t.Fatal(err)
	}
	<-done
	s.Close()
	for i, c := range calls {
		if diff := cmp.Diff(c.want, got[i]); diff != "" {
			t.Errorf("%s (-want +got):\n%.1000s", c.name, diff)
		}
	}
	if !errors.Is(s.Err(), broken) {
		t.Errorf("the session's error: %v", s.Err())
	}
	waitGone(t)
}
