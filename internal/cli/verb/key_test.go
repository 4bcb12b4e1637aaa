package verb

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// One key, once, and never the empty one; a verb for several takes each once.
func TestKeyFlag(t *testing.T) {
	for _, test := range []struct {
		args       []string
		one, error string
		many       []string
	}{
		{args: nil},
		{args: []string{"--key", "a"}, one: "a", many: []string{"a"}},
		{args: []string{"-k", "a"}, one: "a", many: []string{"a"}},
		{args: []string{"--key", ""}, error: "the key is empty"},
		{args: []string{"--key=", "--key", "a"}, error: "the key is empty"},
		{args: []string{"-k", "a", "-k", "b", "-k", "a"}, error: "given twice", many: []string{"a", "b"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			var one string
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			AddKey(flags, &one, "")
			switch err := flags.Parse(test.args); {
			case test.error == "" && (err != nil || one != test.one):
				t.Errorf("one: %q, %v; want %q", one, err, test.one)
			case test.error != "" && (err == nil || !strings.Contains(err.Error(), test.error)):
				t.Errorf("one: %q, %v; want an error with %q", one, err, test.error)
			}
			var many []string
			flags = pflag.NewFlagSet("", pflag.ContinueOnError)
			AddKeys(flags, &many, "")
			if err := flags.Parse(test.args); (err == nil) != (test.error != "the key is empty") {
				t.Errorf("many: %v", err)
			} else if diff := cmp.Diff(test.many, many); err == nil && diff != "" {
				t.Errorf("many (-want +got):\n%s", diff)
			}
		})
	}
}

// A word that is no command is refused with those that it is like.
func TestUnknown(t *testing.T) {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "berth"}
	files := &cobra.Command{Use: "files"}
	files.AddCommand(&cobra.Command{Use: "mkdir", Run: run})
	root.AddCommand(files, &cobra.Command{Use: "run", Run: run})
	for _, test := range []struct {
		at         *cobra.Command
		word, want string
	}{
		{root, "rnu", `there is no command "rnu": do you mean run?`},
		{root, "frobnicate", `there is no command "frobnicate"`},
		{files, "mkdri", `there is no command "files mkdri": do you mean mkdir?`},
	} {
		if got := Unknown(test.at, test.word).Error(); got != test.want {
			t.Errorf("%s: %q, want %q", test.word, got, test.want)
		}
	}
}
