
// A mount of the machine that goes away while the wall is built is told apart from a wall
// that cannot be built.
func TestMountVanished(t *testing.T) {
	for said, want := range map[string]bool{
		`bwrap: Can't bind mount /oldroot/tmp on /newroot/tmp: Unable to apply mount flags: remount "/newroot/tmp/docker/overlay2/1c92/merged": No such file or directory`: true,
		`bwrap: Can't bind mount /oldroot/tmp on /newroot/tmp: Unable to apply mount flags: remount "/newroot/tmp/x": Permission denied`:                                 false,
		`bwrap: Can't find source path /home/a/x: No such file or directory`:                                                                                            false,
		"": false,
	} {
		if isolate.MountVanished(said) != want {
			t.Errorf("%q: %v, want %v", said, !want, want)
		}
	}
}
