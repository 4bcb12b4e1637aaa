//go:build race

package begin

// quickExit keeps the race detector from holding up the end of each guest for a second.
var quickExit = []string{"GORACE=atexit_sleep_ms=0"}
