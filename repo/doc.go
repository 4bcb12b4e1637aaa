// Package repo makes git repositories what a place works on: a work tree on a branch of
// its own, made for a session and removed or kept at its end, or a clone that is put into
// a place without what was needed to get it. It drives the git program of this machine.
//
// # Work trees
//
// A Repository is a directory of the caller's that is trusted. A work tree that was in a
// place is not: whoever worked in it may have written any of its files, and what git keeps
// for it in the repository. So git is never run there. It is asked from the repository,
// with an index of its own that is made of a commit, without hooks, monitors and filters,
// and what it would believe of the work tree's own files is read here and checked. What
// says where a work tree lies is kept in a data directory, where no place can write.
//
// All work trees of sessions are on branches that begin with "berth/": a place that is a
// container can move these and no others.
//
// # Clones
//
// A clone is made on this machine. Secrets reach git by its environment and answer to the
// host of the URL alone; they are in no argument, no file and no error, and what the
// clone's files are has nothing of them. Bytes are counted while they land.
//
// # Concurrency
//
// All functions may be called at once, from several processes too. Cancelling a call ends
// the git that it runs, with all that that has started.
package repo
