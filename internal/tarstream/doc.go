// Package tarstream reads tar archives that nobody vouches for, and writes plain ones.
//
// # Reading
//
// A Reader takes one reading of an archive or none: where two programs could
// understand an archive differently it is refused. It knows regular files,
// directories, symbolic links and hard links, in POSIX ustar and pax and in GNU tar's
// format. Everything else is refused by one of ten reasons, in an error that names the
// entry: devices and FIFOs, sparse files, paths that are absolute or hold "..", an
// entry that stands twice, below a file or behind a symbolic link, a hard link to what
// is no earlier regular file, a checksum that is wrong, an archive without its end and
// one with more after it than zeros.
//
// Names are bytes; a leading "./" and the slash behind a directory's name are taken
// off, and the entry that is then empty, the top itself, is passed over.
//
// # What counts
//
// Limits bound an archive by how it is framed: each header 512 bytes, contents and
// extended headers rounded up to 512, a hard link with the content of its file. What
// Writer has written measures the same when it is read. Of the names that were seen
// only hashes are kept, so that memory depends on Limits.Entries and on nothing that
// an archive says; but with Options.OmitOthers the targets of symbolic links are kept
// too, 32 MiB of them at most.
//
// # Symbolic links
//
// A target is relative, leads up only at its beginning, and no further than the link is
// deep: "../../a/b" is taken, "a/../b" is not, though it may be harmless. So links stay
// inside however they lead through each other, as long as the tree that they land in has
// none of another kind, and nobody moves its directories.
package tarstream
