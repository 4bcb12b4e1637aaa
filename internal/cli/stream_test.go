//go:build linux

package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/testutil/streamtest"
)

// A gigabyte of a command's output passes through berth, and through the guest, whole
// and with flat memory, though its reader stops for a while.
func TestLargeOutput(t *testing.T) {
	size, pause := int64(64<<20), time.Second
	if os.Getenv("BERTH_TEST_SOAK") != "" {
		size, pause = 1<<30, time.Minute
	}
	peer := streamtest.Build(t)
	cmd, dir := berthCommand(t, "run", "-n", "--isolation", "none", "--", peer, "pour", strconv.FormatInt(size, 10))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 8)
	if _, err := io.ReadFull(out, first); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	watched := map[string]*streamtest.Memory{"berth": streamtest.Watch(t, cmd.Process.Pid), "the guest": streamtest.Watch(t, guestBelow(t, filepath.Dir(dir)))}
	time.Sleep(pause)
	streamtest.Pattern(t, io.MultiReader(bytes.NewReader(first), out), size)
	if got := statusOf(t, cmd.Wait()); got != 0 || errs.Len() > 0 {
		t.Errorf("exit status %d, stderr %q", got, errs.String())
	}
	for name, m := range watched {
		t.Logf("%s grew by %d MiB to %d", name, m.Growth()>>20, m.Peak()>>20)
		if !m.Flat() {
			t.Errorf("%s grew by %d bytes", name, m.Growth())
		}
	}
}

// guestBelow finds the guest whose place lies below dir.
func guestBelow(t *testing.T, dir string) int {
	t.Helper()
	for _, line := range processesBelow(dir) {
		pid, args, _ := strings.Cut(line, " ")
		if strings.Contains(args, " serve ") {
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("there is no guest")
	return 0
}
