package usage_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/internal/agent/usage"
)

// Time counts from the end of the last thing that went on, and not while one does.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := usage.New()
		want := func(when string, d time.Duration) {
			t.Helper()
			if got := m.Unused(); got != d {
				t.Errorf("%s: unused for %v, want %v", when, got, d)
			}
		}
		time.Sleep(time.Minute)
		want("at first", time.Minute)
		m.Begin()
		m.Begin()
		want("while two go on", 0)
		time.Sleep(time.Hour)
		m.End()
		want("while one goes on", 0)
		m.End()
		want("at the end", 1)
		time.Sleep(time.Second)
		want("after it", time.Second)
	})
}
