package engine

import (
	"strconv"

	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
)

// StorageOptions limit what a container writes into its own layer.
func StorageOptions(l spec.Limits) map[string]string {
	if l.DiskBytes == 0 {
		return nil
	}
	return map[string]string{"size": strconv.FormatInt(l.DiskBytes, 10)}
}

// DeviceRequests ask for GPUs, as the engine's own command does.
func DeviceRequests(l spec.Limits) []container.DeviceRequest {
	if l.GPUs == 0 {
		return nil
	}
	return []container.DeviceRequest{{Count: l.GPUs, Capabilities: [][]string{{"gpu"}}}}
}

// DiskAndGPUs are the limits of a container that have no number of their own.
func DiskAndGPUs(h *container.HostConfig) (disk int64, gpus int) {
	disk, _ = strconv.ParseInt(h.StorageOpt["size"], 10, 64)
	for _, r := range h.DeviceRequests {
		gpus += r.Count
	}
	return disk, gpus
}
