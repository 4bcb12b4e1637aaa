package repo

import (
	"errors"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// source is where a clone comes from.
type source struct {
	text     string // as git gets it
	protocol string // as git calls it
	// scheme and host are those of a URL that is asked by HTTP; a port belongs to the host.
	scheme, host string
}

// sshPlace is user@host:path.
var sshPlace = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*:[^-:]`)

// parseSource takes what a clone may come from, and nothing by which git would run a
// program or learn a secret.
func parseSource(text string) (source, error) {
	refuse := func(why string) (source, error) {
		return source{}, &spec.Error{Code: spec.CodeInvalid, Err: errors.New(why), Hint: "want https://HOST/PATH, ssh://[USER@]HOST/PATH, [USER@]HOST:PATH or the absolute path of a directory"}
	}
	switch {
	case text == "" || len(text) > spec.MaxPathBytes || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return refuse("that is no URL of a repository")
	case filepath.IsAbs(text):
		return source{text: text, protocol: "file"}, nil
	case !strings.Contains(text, "://"):
		if !sshPlace.MatchString(text) {
			return refuse("that is no URL of a repository")
		}
		return source{text: text, protocol: "ssh"}, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || strings.HasPrefix(u.Host, "-") {
		return refuse("that is no URL of a repository") // what is wrong with it would say what it holds
	}
	_, password := u.User.Password()
	switch {
	case password || u.User != nil && u.Scheme != "ssh" || u.RawQuery != "" || u.Fragment != "":
		return refuse("the URL holds credentials, or what could be some")
	case strings.HasPrefix(u.User.Username(), "-"):
		return refuse("that is no URL of a repository")
	case u.Scheme == "file" && u.Host == "" && u.Path != "":
	case u.Host == "":
		return refuse("the URL names no host")
	case u.Scheme == "ssh":
	case u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()):
		return source{text: text, protocol: u.Scheme, scheme: u.Scheme, host: u.Host}, nil
	case u.Scheme == "http":
		return refuse("http would show everybody what is asked and answered: only this machine itself is asked so")
	default:
		return refuse("clones come by https, ssh or from a directory")
	}
	return source{text: text, protocol: u.Scheme}, nil
}

// loopback reports whether a host is this machine, whatever names mean.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// checkRef refuses what git would not take for the name of a branch, a tag or a commit.
func checkRef(ref string) error {
	bad := func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) }
	zero := len(ref) >= 40 && strings.Trim(ref, "0") == "" // git takes it for none
	if len(ref) > spec.MaxPathBytes || strings.HasPrefix(ref, "-") || strings.Contains(ref, "..") || strings.Contains(ref, "@{") || strings.ContainsFunc(ref, bad) || zero {
		return &spec.Error{Code: spec.CodeInvalid, Err: errors.New("that is no name of a branch or tag, and no commit"), Hint: "want a branch, a tag, or all digits of a commit's id"}
	}
	return nil
}
