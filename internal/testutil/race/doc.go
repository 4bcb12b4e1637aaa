// Package race tells a test whether it runs under the race detector, where a bound on
// memory has to allow for the detector's own.
package race

// QuickExit is the variable of the environment that keeps the race detector from holding up
// the end of a program for a second.
const QuickExit = "GORACE=atexit_sleep_ms=0"
