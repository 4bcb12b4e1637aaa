package agent

import "runtime/debug"

// Version is the module version that the program was built from, "devel" where
// the build does not know one.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == modulePath && m.Version != "" && m.Version != "(devel)" {
				return m.Version
			}
		}
	}
	return "devel"
}

const modulePath = "github.com/berth-dev/berth"
