//go:build race

package streamtest

// raceFactor is by how much the race detector makes memory larger.
const raceFactor = 8
