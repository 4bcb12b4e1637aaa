package lapsed_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/internal/agent/lapsed"
)

// An id is remembered for as long as a host may send its request again, and for as long as
// one may lie in a network after that; then it costs nothing.
func TestStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const resume = 10 * time.Second
		ids := lapsed.New(resume)
		ids.Add("a")
		time.Sleep(resume + time.Minute)
		ids.Add("b")
		if !ids.Has("a") || !ids.Has("b") || ids.Has("c") {
			t.Errorf("a minute after the window: a %v, b %v, c %v; want a and b", ids.Has("a"), ids.Has("b"), ids.Has("c"))
		}
		time.Sleep(resume + time.Minute)
		if ids.Has("a") || !ids.Has("b") {
			t.Errorf("two minutes after it: a %v, b %v; want b", ids.Has("a"), ids.Has("b"))
		}
	})
}
