package spec

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode/utf8"
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
		if address == "@" {
			return New(CodeInvalid, "an abstract name is empty")
		}
		return ValidatePath(address)
	}
	return New(CodeInvalid, fmt.Sprintf("network %q: it is tcp, tcp4, tcp6 or unix", clip(network)))
}

// Port is one socket on which something inside a place listens.
type Port struct {
	Network string `json:"network"` // "tcp4", "tcp6" or "unix"
	// Address is "host:port", a path as it was given to bind, or "@" and an abstract name,
	// in which a NUL is "@" too. A wildcard host is as the kernel says it: 0.0.0.0 or ::.
	Address string `json:"address"`
	// PID and Name are the process that holds the socket, where the guest can see it.
	PID  int    `json:"pid,omitempty"`
	Name string `json:"name,omitempty"`
}

// portJSON is a Port in JSON, which holds UTF-8 only: an address that is none stands in
// address_b64 too, and each ill-formed byte of address is U+FFFD.
type portJSON struct {
	*plainPort
	Address    string `json:"address"`
	AddressB64 string `json:"address_b64,omitempty"`
}

type plainPort Port

// MarshalJSON implements json.Marshaler.
func (p Port) MarshalJSON() ([]byte, error) {
	out := portJSON{plainPort: (*plainPort)(&p), Address: p.Address}
	if !utf8.ValidString(p.Address) {
		out.Address, out.AddressB64 = string([]rune(p.Address)), base64.StdEncoding.EncodeToString([]byte(p.Address))
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Port) UnmarshalJSON(data []byte) error {
	var plain plainPort
	in := portJSON{plainPort: &plain}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	plain.Address = in.Address
	if in.AddressB64 != "" {
		exact, err := base64.StdEncoding.Strict().DecodeString(in.AddressB64)
		if err != nil {
			return &Error{Code: CodeInvalid, Err: fmt.Errorf("address_b64: %w", err)}
		}
		plain.Address = string(exact)
	}
	*p = Port(plain)
	return nil
}
