//go:build !race

package race

// MemoryFactor is by how much the race detector makes memory larger: it is not there.
const MemoryFactor = 1
