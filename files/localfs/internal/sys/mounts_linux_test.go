package sys

import "testing"

// A name is spelled as in its directory, whatever bytes it holds, and where nothing is
// known something may be mounted on every one.
func TestMountNames(t *testing.T) {
	n := mountNames([]byte("21 1 8:1 / / rw - ext4 /dev/sda rw\n" +
		"22 21 0:5 /null /a/dev/null rw,nosuid - devtmpfs udev rw\n" +
		"23 21 0:6 / /b/with\\040space\\134040\\ rw shared:7 - tmpfs tmpfs rw\n" +
		"short line\n\n"))
	n.known = true
	for name, want := range map[string]bool{"null": true, `with space\040\`: true, "dev": false, "a": false, "line": false, "space": false} {
		if n.Has(name) != want {
			t.Errorf("%q: %v, want %v", name, !want, want)
		}
	}
	if !(MountNames{}).Has("anything") {
		t.Error("where nothing is known a name cannot be a mount")
	}
	var real Mounts
	if names := real.Names(); !names.known || !names.Has("") {
		t.Errorf("the mounts of this process are %v", names)
	}
}
