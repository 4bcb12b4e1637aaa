package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
)

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long:  `Version prints what this program was built from.`,
		Example: `  berth version
  berth version --json`,
		Args:        verb.NoArguments,
		Annotations: map[string]string{verb.Tolerant: "yes"},
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			if a.JSON {
				return a.Print(v)
			}
			return a.Say("berth %s %s %s/%s", console.Clean(v.Version), v.Go, v.OS, v.Arch)
		},
	}
}

type versionLine struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func buildVersion() versionLine {
	v := versionLine{Version: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
