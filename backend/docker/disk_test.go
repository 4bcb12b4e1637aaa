//go:build linux

package docker_test

import (
	"strconv"
	"testing"

	"github.com/berth-dev/berth/files/filestest"
)

// A small disk in a container that fills up keeps what was there: the engine mounts one
// at /dev/shm.
func TestSmallDisk(t *testing.T) {
	sb := provision(t, newDriver(t, testOptions(t)), busybox(t))
	size, err := strconv.ParseInt(sh(t, sb, "df -k /dev/shm | awk 'END { print $2 }'"), 10, 64)
	if err != nil || size == 0 || size > 128<<10 {
		t.Fatalf("/dev/shm has %d KiB, %v", size, err)
	}
	filestest.SmallDisk(testContext(t), t, filestest.Env{FS: sb.Files(), Dir: "/dev/shm"}, size<<10)
}
