package ondemand

import (
	"time"

	"github.com/berth-dev/berth/spec"
)

const (
	// StartLimit bounds the wait for a service to answer.
	StartLimit = 20 * time.Second
	// quietStart is how long a start may take before it is reported.
	quietStart = time.Second
)

// Service is one that listens on a socket for as long as it is needed. It is safe for
// concurrent use, and shared with other processes of this user.
type Service struct {
	// Title is what people call it.
	Title string
	// Command starts it: a program and its arguments, after which the address of the
	// socket comes, unix:///path. It runs in the directory / with the environment of this
	// process, in a session of its own, and ends by itself.
	Command []string
	// Dir is where its sockets are: absolute, this user's alone, and short enough for a
	// socket. It is made if need be, with the directories above it, and stays.
	Dir string
	// LookOnly: one that runs is used, none is started.
	LookOnly bool
	// Progress is told of a start that takes longer than a second; nil: nobody is.
	Progress func(spec.Progress)
}
