module example.com/shellbackend

go 1.26.8

require github.com/berth-dev/berth v0.0.0

require (
	github.com/creack/pty v1.1.24 // indirect
	github.com/hashicorp/yamux v0.1.2 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/berth-dev/berth => ../..
