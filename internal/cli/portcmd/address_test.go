package portcmd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A forward is read as its help says, and what is none is refused.
func TestParseRoute(t *testing.T) {
	tcp := func(text string) address { return address{"tcp", text} }
	named := func(text string) address { return address{"unix", text} }
	for word, want := range map[string]*route{
		"8080:3000":               {listen: tcp("127.0.0.1:8080"), target: tcp(":3000")},
		"0:3000":                  {listen: tcp("127.0.0.1:0"), target: tcp(":3000")},
		"0.0.0.0:8080:3000":       {listen: tcp("0.0.0.0:8080"), target: tcp(":3000")},
		"8080:db:5432":            {listen: tcp("127.0.0.1:8080"), target: tcp("db:5432")},
		"localhost:8080:db:5432":  {listen: tcp("localhost:8080"), target: tcp("db:5432")},
		"[::1]:8080:[fe80::1]:80": {listen: tcp("[::1]:8080"), target: tcp("[fe80::1]:80")},
		"./a.sock:3000":           {listen: named("./a.sock"), target: tcp(":3000")},
		"8080:/run/app.sock":      {listen: tcp("127.0.0.1:8080"), target: named("/run/app.sock")},
		"@a:@b":                   {listen: named("@a"), target: named("@b")},
		"./a:db:80":               {listen: named("./a"), target: tcp("db:80")},
		"":                        nil,
		"8080":                    nil,
		"8080:0":                  nil,
		"8080:x":                  nil,
		"70000:80":                nil,
		"host:80":                 nil,
		"a:1:b:2:3":               nil,
		"@:3000":                  nil,
	} {
		got, err := parseRoute(word, false)
		if want == nil {
			if err == nil {
				t.Errorf("%q is taken as %+v", word, got)
			}
			continue
		}
		if diff := cmp.Diff(*want, got, cmp.AllowUnexported(route{}, address{})); err != nil || diff != "" {
			t.Errorf("%q: %v %s", word, err, diff)
		}
	}
}
