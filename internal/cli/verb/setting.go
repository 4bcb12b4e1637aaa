package verb

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-dev/berth/internal/config"
)

// settingKey is the annotation of a flag that sets a setting; it holds its key.
const settingKey = "setting"

// settingFlag collects the values of a flag as they were given. What they mean is
// for package config to say, which names the flag in its errors.
type settingFlag struct {
	meta   string
	values []string
}

func (f *settingFlag) Set(s string) error { f.values = append(f.values, s); return nil }
func (f *settingFlag) String() string     { return strings.Join(f.values, ":") }
func (f *settingFlag) Type() string       { return f.meta }

// AddSettings adds the flags of settings to a verb. Help and names come from the
// table.
func AddSettings(flags *pflag.FlagSet, keys ...string) {
	for _, key := range keys {
		s, ok := config.Lookup(key)
		if !ok {
			panic("verb: no setting " + key)
		}
		help := cmp.Or(s.FlagHelp, s.Help)
		if s.Default != "" {
			help += " (default: " + s.Default + ")"
		}
		if s.Env != "" {
			help += " [" + s.Env + "]"
		}
		f := flags.VarPF(&settingFlag{meta: s.Meta}, s.Flag, "", help)
		f.Annotations = map[string][]string{settingKey: {key}}
		if s.Meta == "BOOL" {
			f.NoOptDefVal = "true"
		}
	}
}

// GivenSettings returns the flags of settings that the command line has.
func GivenSettings(cmd *cobra.Command) map[string][]string {
	given := map[string][]string{}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if v, ok := f.Value.(*settingFlag); ok {
			given[f.Annotations[settingKey][0]] = v.values
		}
	})
	return given
}
