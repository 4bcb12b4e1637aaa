//go:build race

package race

// MemoryFactor is by how much the race detector makes memory larger.
const MemoryFactor = 8
