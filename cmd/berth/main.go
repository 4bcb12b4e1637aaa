// Command berth runs commands in sandboxes. See "berth --help".
package main

import (
	"context"
	"os"

	"github.com/berth-dev/berth/guest/selfexec"
	"github.com/berth-dev/berth/internal/cli"
)

func main() {
	// First, so that this program can be the guest of its own sandboxes.
	selfexec.Main()
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
