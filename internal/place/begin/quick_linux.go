//go:build !race

package begin

var quickExit []string
