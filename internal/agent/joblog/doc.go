// Package joblog keeps the output of one command in a file, and finds its lines.
//
// Beside a log lies its index: for each block of 64 KiB the number of newlines up to
// the block's end. A line is found by a search in the index and a look at one block,
// however long the log is; the index costs eight bytes a block and is in memory while
// the log is in use. It is written out from time to time, and what is missing of it is
// counted again when the log is met after a restart.
//
// Both files lie among commands that may cut, replace or rewrite them. What is read
// back is checked for its bounds: the worst that comes of it are other bytes, or an
// error, never a wait without end.
package joblog
