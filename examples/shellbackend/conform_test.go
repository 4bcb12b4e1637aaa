package shellbackend_test

import (
	"os"
	"testing"

	"example.com/shellbackend"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/drivertest"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/guest/selfexec"
)

func TestMain(m *testing.M) {
	selfexec.Main() // this program is the guest, too
	os.Exit(m.Run())
}

// The suite that Berth's own backends pass.
func TestConformance(t *testing.T) {
	drivertest.Run(t, drivertest.Options{Open: func() (driver.Driver, error) {
		return shellbackend.New(shellbackend.Options{Command: `exec "$@"`, Guest: guest.BinaryOptions{AllowSelf: true}}), nil
	}})
}
