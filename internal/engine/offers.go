package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/system"
)

// Offers are what an engine can do beyond the limits of its kernel.
type Offers struct {
	// Runtimes are the programs that can run a container, sorted; empty where the engine
	// does not say.
	Runtimes []string
	// NoDisk and NoGPUs say why a container's disk cannot be limited, and why it gets no
	// GPUs; "" where both can be asked for.
	NoDisk, NoGPUs string
}

func offers(info *system.Info) Offers {
	o := Offers{Runtimes: slices.Sorted(maps.Keys(info.Runtimes)), NoDisk: noDisk(info), NoGPUs: "the engine has no nvidia runtime and no CDI device of a GPU"}
	if _, nvidia := info.Runtimes["nvidia"]; nvidia {
		o.NoGPUs = ""
	}
	for _, d := range info.DiscoveredDevices {
		if strings.HasPrefix(d.ID, "nvidia.com/gpu=") {
			o.NoGPUs = ""
		}
	}
	return o
}

// noDisk says why the storage of an engine enforces no size of a container's layer. An xfs
// that is mounted without project quotas looks like one with them: there the engine
// refuses to create the container.
func noDisk(info *system.Info) string {
	backing := ""
	for _, row := range info.DriverStatus {
		if row[0] == "Backing Filesystem" {
			backing = row[1]
		}
	}
	switch info.Driver {
	case "btrfs", "zfs", "devicemapper":
		return ""
	case "overlay2", "overlay":
		if backing == "xfs" {
			return ""
		}
		return fmt.Sprintf("the engine's storage, %s on %.32s, enforces no size: that takes xfs mounted with pquota, btrfs or zfs", info.Driver, backing)
	}
	return fmt.Sprintf("the engine's storage, %.32s, enforces no size: that takes overlay2 on xfs mounted with pquota, btrfs or zfs", info.Driver)
}
