package berth_test

import (
	"os"
	"testing"

	"github.com/berth-dev/berth/guest/selfexec"
)

// The examples start guests by re-executing the test binary.
func TestMain(m *testing.M) {
	selfexec.Main()
	os.Exit(m.Run())
}
