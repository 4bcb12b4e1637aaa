package repo

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// remote is a host that git speaks with.
type remote struct {
	from   source
	env    []string
	secret []string // environment
	config []string
	scrub  func(string) string
}

// The variables by which the helper gets what it is to say.
const (
	usernameVar = "BERTH_CLONE_USERNAME"
	passwordVar = "BERTH_CLONE_PASSWORD"
)

// helper answers git's question for credentials, in the form of git's configuration.
const helper = `!f() { if test "$1" = get; then printf 'username=%s\npassword=%s\n' "$` + usernameVar + `" "$` + passwordVar + `"; fi; }; f`

// authorize has the host, and no other, get a secret when it asks for one.
func (r *remote) authorize(username, token string) error {
	if token == "" {
		return nil
	}
	if strings.ContainsAny(username+token, "\n\r\x00") {
		return spec.New(spec.CodeInvalid, "a user name or a token of several lines")
	}
	r.secret = []string{usernameVar + "=" + username, passwordVar + "=" + token}
	r.config = []string{"credential." + r.from.scheme + "://" + r.from.host + ".helper", helper}
	r.scrub = scrubber(username, token)
	return nil
}

// git is a call that may speak with the host. A log of references would hold who we are.
func (r *remote) git(dir string, args ...string) call {
	return call{
		args: args, long: true, dir: dir, env: slices.Concat(r.env, r.secret), scrub: r.scrub,
		config: append(slices.Clone(r.config), "core.logAllRefUpdates", "false", "submodule.recurse", "false", "core.bigFileThreshold", "16m"),
	}
}

// scrubber takes a secret out of texts, in the forms that a request by HTTP has it.
func scrubber(username, token string) func(string) string {
	var pairs []string
	for _, form := range []string{
		base64.StdEncoding.EncodeToString([]byte(username + ":" + token)),
		base64.StdEncoding.EncodeToString([]byte(token)), base64.RawStdEncoding.EncodeToString([]byte(token)),
		token, url.QueryEscape(token), url.PathEscape(token),
	} {
		pairs = append(pairs, form, "***")
	}
	return strings.NewReplacer(pairs...).Replace
}
