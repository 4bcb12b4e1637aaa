package fake_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/backend/fake"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/drivertest"
)

// The fake keeps the contract of every backend: two drivers over one World are two
// clients.
func TestConform(t *testing.T) {
	world := fake.NewWorld()
	const orphanAfter = time.Second
	drivertest.Run(t, drivertest.Options{
		Open: func() (driver.Driver, error) {
			return fake.New(fake.Options{World: world, OrphanAfter: orphanAfter}), nil
		},
		OrphanAfter: orphanAfter,
		Soak:        os.Getenv("BERTH_TEST_SOAK") != "",
	})
}

// The whole suite runs in a bubble: whatever an agent does, its waits are the bubble's.
// What measures CPU time is left out, because a bubble's clock stands still meanwhile.
func TestConformInABubble(t *testing.T) {
	burning := map[string]bool{"ExecTellsItsCosts": true, "RlimitsAreHonoured": true}
	var names []string
	for _, c := range drivertest.Cases() {
		if !burning[c.Name] {
			names = append(names, c.Name)
		}
	}
	only := regexp.MustCompile("^(" + strings.Join(names, "|") + ")$")
	synctest.Test(t, func(t *testing.T) {
		world := fake.NewWorld()
		began := time.Now()
		report, err := drivertest.Check(t.Context(), drivertest.Options{
			Open: func() (driver.Driver, error) { return fake.New(fake.Options{World: world}), nil },
			Only: only,
		}, func(r drivertest.Result) {
			if r.Outcome == drivertest.Failed {
				t.Errorf("%s: %s\n%s", r.Case, r.Rule, strings.Join(r.Messages, "\n"))
			}
		})
		if err != nil || !report.OK() {
			t.Errorf("%d passed, %d failed, %v", report.Passed, report.Failed, err)
		}
		t.Logf("%d cases passed in %v of the bubble's time", report.Passed, time.Since(began))
	})
}
