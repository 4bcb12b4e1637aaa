// Package filelock has processes of one machine wait for each other: a lock is a file, and
// is let go when its holder ends, however that happens.
package filelock
