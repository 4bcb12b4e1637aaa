package verb

import (
	"errors"
	"slices"

	"github.com/spf13/pflag"
)

// AddKey adds the flag that says which sandbox is meant. It takes one key, once, and
// not the empty one: a variable that is not set is no sandbox, and no wish for a new one.
func AddKey(flags *pflag.FlagSet, key *string, help string) {
	flags.VarP(&keyFlag{one: key}, "key", "k", help)
}

// AddKeys is AddKey for a verb that takes several sandboxes.
func AddKeys(flags *pflag.FlagSet, keys *[]string, help string) {
	flags.VarP(&keyFlag{many: keys}, "key", "k", help)
}

// keyFlag is a pflag.Value; one of its fields is set.
type keyFlag struct {
	one  *string
	many *[]string
}

func (f *keyFlag) Set(s string) error {
	switch {
	case s == "":
		return errors.New("the key is empty")
	case f.many != nil && slices.Contains(*f.many, s):
		return nil
	case f.many != nil:
		*f.many = append(*f.many, s)
	case *f.one != "" && *f.one != s: // a completion parses a command line twice
		return errors.New("it is given twice, and one sandbox is meant")
	default:
		*f.one = s
	}
	return nil
}

func (f *keyFlag) String() string { return "" }
func (f *keyFlag) Type() string   { return "KEY" }
