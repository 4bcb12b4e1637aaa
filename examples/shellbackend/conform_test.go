package shellbackend_test

import (
	"os"
	"regexp"
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
	o := drivertest.Options{Open: func() (driver.Driver, error) {
		return shellbackend.New(shellbackend.Options{Command: `exec "$@"`, Guest: guest.BinaryOptions{AllowSelf: true}}), nil
	}}
	if testing.Short() {
		o.Only = regexp.MustCompile("^(Exec|Caps|Close|Destroy)")
	}
	drivertest.Run(t, o)
}
