package isolate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/isolate"
	"github.com/berth-dev/berth/spec"
)

// TestSeatbelt defends the text of the profile for macOS: each rule, and their order, of
// which the last one that applies decides.
func TestSeatbelt(t *testing.T) {
	policy := isolate.Policy{
		Workdir: "/Users/me/w", WritableRoots: []string{`/data/a "b" \c`}, Temporary: []string{"/private/tmp"}, OptionalRoots: []string{"/Users/me/.state/p/state"},
		Hidden: []string{"/Users/me/.ssh"}, State: "/Users/me/.state", Program: "/opt/guest", Homes: []string{"/Users/me"}, OtherHomes: []string{"/Users/you", "/Users/me"},
	}
	got := isolate.Seatbelt(policy)
	head := `(version 1)
(allow default)
(deny file-write*)
(allow file-write-data (require-all (vnode-type CHARACTER-DEVICE) (subpath "/dev")))
(deny file-read* file-write*
  (subpath "/Users/you"))
(allow file-read*
  (subpath "/Users/me"))
(deny file-read* file-write*
  (subpath "/Users/me/.state"))
(allow file-read* file-write*
  (subpath "/Users/me/.state/p/state")
  (subpath "/Users/me/w")
  (subpath "/data/a \"b\" \\c")
  (subpath "/private/tmp"))
(deny file-write*
`
	tail := `(deny file-read* file-write*
  (subpath "/Users/me/.ssh"))
(deny network-outbound (remote unix-socket))
(deny network*)
(deny signal (target others))
(deny process-info* (target others))
(deny mach-priv-task-port (target others))
`
	if !strings.HasPrefix(got, head) || !strings.HasSuffix(got, tail) {
		t.Errorf("got %s\n%s", got, cmp.Diff(head, got[:min(len(head), len(got))]))
	}
	middle := strings.TrimSuffix(strings.TrimPrefix(got, head), tail)
	for _, path := range []string{"/opt/guest", "/Users/me/w/.git/hooks", "/Users/me/w/.git/config", "/Users/me/.zshrc", `/data/a \"b\" \\c/.envrc`} {
		if !strings.Contains(middle, `(subpath "`+path+`")`) {
			t.Errorf("%s is not protected", path)
		}
	}
	policy.Network = spec.NetworkOpen
	if strings.Contains(isolate.Seatbelt(policy), "(deny network*)") {
		t.Error("an open network is closed")
	}
}
