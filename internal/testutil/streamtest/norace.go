//go:build !race

package streamtest

// raceFactor is by how much the race detector makes memory larger: it is not there.
const raceFactor = 1
