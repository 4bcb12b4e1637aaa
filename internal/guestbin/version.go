package guestbin

import "runtime/debug"

const modulePath = "github.com/berth-dev/berth"

// Version is the version of this module in the running program, "" where the
// build does not know it.
func Version() string {
	if m := module(); m != nil {
		return m.Version
	}
	return ""
}

// module is this module as the running program was built with it, or nil.
func module() *debug.Module {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	if info.Main.Path == modulePath {
		return &info.Main
	}
	for _, m := range info.Deps {
		if m.Path == modulePath {
			return m
		}
	}
	return nil
}
