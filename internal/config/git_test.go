package config

import "testing"

// The token for clones is the one that is set, and only for github.com one of GitHub's own;
// it is in no listing.
func TestGitToken(t *testing.T) {
	const file = "git.token = 'ours'\n"
	for _, test := range []struct {
		name       string
		s          Sources
		host, want string
	}{
		{"none", sources("", nil), "github.com", ""},
		{"the file's", sources(file, nil, "GH_TOKEN=gh"), "github.com", "ours"},
		{"the variable's", sources(file, nil, "BERTH_GIT_TOKEN=mine"), "example.com:8443", "mine"},
		{"GitHub's", sources("", nil, "GITHUB_TOKEN=second", "GH_TOKEN=gh"), "github.com", "gh"},
		{"GitHub's other one", sources("", nil, "GITHUB_TOKEN=second"), "github.com", "second"},
		{"GitHub's, elsewhere", sources("", nil, "GITHUB_TOKEN=second", "GH_TOKEN=gh"), "github.com.example.com", ""},
	} {
		c := load(t, test.s)
		if got := c.GitToken(test.host); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		for _, v := range c.Values {
			if v.Key == "git.token" && v.Text != "" && v.Text != "(hidden)" {
				t.Errorf("%s: shown: %q", test.name, v.Text)
			}
		}
	}
}
