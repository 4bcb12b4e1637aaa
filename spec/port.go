package spec

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// ValidateAddress refuses an address that nothing inside a place can listen on. network
// is "tcp", "tcp4" or "tcp6" with "host:port", an empty host being the place's loopback,
// or "unix" with a path (relative to the workdir) or, after "@", an abstract name. listen
// allows port 0, for one that is free.
func ValidateAddress(network, address string, listen bool) error {
	switch network {
	case "tcp", "tcp4", "tcp6":
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return &Error{Code: CodeInvalid, Err: err}
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 && !listen {
			return New(CodeInvalid, fmt.Sprintf("port %q: a number from 1 to 65535 is needed", clip(port)))
		}
		if len(host) > 253 || strings.ContainsAny(host, "\x00/ ") {
			return New(CodeInvalid, fmt.Sprintf("host %q", clip(host)))
		}
		return nil
	case "unix":
		return ValidatePath(address)
	}
	return New(CodeInvalid, fmt.Sprintf("network %q: it is tcp, tcp4, tcp6 or unix", clip(network)))
}

// Port is one socket on which something inside a place listens.
type Port struct {
	Network string `json:"network"` // "tcp4", "tcp6" or "unix"
	// Address is "host:port", a path, or "@" and an abstract name. A wildcard host is as
	// the kernel says it: 0.0.0.0 or ::.
	Address string `json:"address"`
	// PID and Name are the process that holds the socket, where the guest can see it.
	PID  int    `json:"pid,omitempty"`
	Name string `json:"name,omitempty"`
}
