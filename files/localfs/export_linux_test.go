package localfs

// WalkOnly makes a confined FS do without openat2, as on a kernel that has none.
func WalkOnly(f *FS) *FS {
	f.root.WalkOnly = true
	return f
}
