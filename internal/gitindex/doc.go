// Package gitindex reads of a git index, the list of files that a repository has beside its
// work tree, what is of interest when a command may have written it. git trusts what it finds
// there: it verifies a name when the name is added, not when it is read, so that a checkout
// writes whatever path an index names, and it goes into the repositories that an index says
// are submodules.
//
// Whoever crafts an index wants git to see in it what is not seen here. So only a file in
// which nothing is left open counts as read.
package gitindex
