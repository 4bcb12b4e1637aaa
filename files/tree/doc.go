// Package tree takes a directory out of a place as a tar archive, puts one in, and says
// what one holds. It is written over package files; a place that can do it where its
// files are (Exporter, Importer, Manifester) is asked to.
//
// # Archives
//
// What goes in is not trusted, and neither is what comes out of a place: both are read by
// the same strict reader, which knows regular files, directories, symbolic links and hard
// links, and refuses anything else, and anything that could leave the directory, by one of
// ten reasons (RefusedError). What is passed on is an archive of Berth's own making, with
// what was understood and nothing else. Limits bound it; the defaults are 256 MiB for one
// file, 1 GiB for all and a million entries.
//
// Links may lead through each other, so what a target means is not in its text. One that is
// absolute, leads up further than its link is deep, or leads up behind a name is refused
// or, by ExportOptions.OmitEscapingLinks, left out: "../../a/b" is taken, "a/../b" is not,
// even where it would be harmless. A link of a tree that an import took then leads to
// something in the tree or to nothing, unless it leads through one that was in the
// directory before: such are not judged.
//
// # What is kept
//
// Names and contents, byte for byte, empty directories, symbolic links, permission bits;
// on the way out also set-user-ID, set-group-ID and sticky bits and, unless ZeroTimes is
// set, times. Owners are never kept, and on the way in neither special bits nor times. A
// hard link becomes a file of its own.
//
// # Concurrency
//
// The tree may change while it is worked on. An export never passes off a file that shrank
// as whole, and neither leaves the directory through a link that is swapped in; over an FS
// that is no Rooter the latter is a look before each step and no proof.
package tree
