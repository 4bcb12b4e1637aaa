//go:build berth_embed

package guest

import _ "embed"

// The binaries are made by go generate in this directory.

//go:embed bin/berth-guest-linux-amd64
var embeddedAMD64 []byte

//go:embed bin/berth-guest-linux-arm64
var embeddedARM64 []byte

// embedded returns the binary for a platform that is part of this program, or nil.
func embedded(platform string) []byte {
	switch platform {
	case "linux-amd64":
		return embeddedAMD64
	case "linux-arm64":
		return embeddedARM64
	}
	return nil
}
