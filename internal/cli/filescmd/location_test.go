package filescmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/berth-dev/berth/internal/cli/verb"
)

// "One without a colon, or with a slash before the first one" is a path of this machine.
func TestParseLocation(t *testing.T) {
	for arg, want := range map[string]location{
		"a":        {path: "a"},
		"./a:b":    {path: "./a:b"},
		"/a:b":     {path: "/a:b"},
		"a/b:c":    {path: "a/b:c"},
		"k:":       {key: "k"},
		"k:a":      {key: "k", path: "a"},
		"k:/a:b":   {key: "k", path: "/a:b"},
		"k-1_x.y:": {key: "k-1_x.y"},
		"k:a\n\xff": {
			key: "k", path: "a\n\xff",
		},
	} {
		if got, err := parseLocation(arg); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", arg, got, err, want)
		}
	}
	for _, arg := range []string{"", ":a", "a b:c", "..:x", strings.Repeat("k", 1000) + ":x"} {
		var m *verb.Misuse
		if got, err := parseLocation(arg); !errors.As(err, &m) {
			t.Errorf("%q: %+v, %v, want it refused", arg, got, err)
		}
	}
	if got, err := parseRemote("k", true); err != nil || got != (location{"k", "."}) {
		t.Errorf("a bare key: %+v, %v", got, err)
	}
	if _, err := parseRemote("k", false); err == nil {
		t.Error("a bare key where a path is needed")
	}
}

func TestParseLines(t *testing.T) {
	for text, want := range map[string][2]int64{"1:2": {1, 2}, "3:": {3, allLines}, ":4": {1, 4}, "5": {5, 5}, ":": {1, allLines}} {
		if first, last, err := parseLines(text); err != nil || first != want[0] || last != want[1] {
			t.Errorf("%q: %d, %d, %v", text, first, last, err)
		}
	}
	for _, text := range []string{"0", "0:1", "2:1", "-1:", "a:b", "1:2:3", "99999999999999999999"} {
		if first, last, err := parseLines(text); err == nil {
			t.Errorf("%q: %d, %d", text, first, last)
		}
	}
}

// Lines of any length are shown whole.
func TestWindowOfLines(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	text := "one\n" + long + "\nthree\nlast"
	for _, test := range []struct {
		w    window
		want string
	}{
		{window{}, text},
		{window{first: 2, last: 2}, long + "\n"},
		{window{first: 3, last: 9}, "three\nlast"},
		{window{first: 1, last: 1}, "one\n"},
		{window{first: 5, last: 6}, ""},
	} {
		var out bytes.Buffer
		if err := test.w.copy(&out, strings.NewReader(text)); err != nil || out.String() != test.want {
			t.Errorf("%+v: %d bytes, %v, want %d", test.w, out.Len(), err, len(test.want))
		}
	}
}

// A Read of the input ends with the context, and gives all bytes otherwise.
func TestInput(t *testing.T) {
	text := strings.Repeat("0123456789", 50_000)
	var n atomic.Int64
	in := &counted{r: &input{ctx: t.Context(), r: strings.NewReader(text)}, n: &n, hash: newHash()}
	got, err := io.ReadAll(in)
	if err != nil || string(got) != text || n.Load() != int64(len(text)) {
		t.Errorf("%d bytes, %d counted, %v", len(got), n.Load(), err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	why := errors.New("enough")
	cancel(why)
	if _, err := (&input{ctx: ctx, r: r}).Read(make([]byte, 1)); !errors.Is(err, why) {
		t.Errorf("a cancelled read: %v", err)
	}
}
