// Package pack writes what lies in a directory as an archive, with owners, for an engine whose
// own archives say nothing of those. It is run in a container of its own, by root.
package pack
