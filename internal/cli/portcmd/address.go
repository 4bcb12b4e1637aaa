package portcmd

import (
	"context"
	"net"
	"strings"

	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// address is where something listens, as package net has it.
type address struct{ network, text string }

func (a address) String() string { return a.text }

// dialer connects to an address: in a sandbox, or here.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// isName reports whether a word is the name of a unix socket.
func isName(word string) bool { return strings.HasPrefix(word, "@") || strings.Contains(word, "/") }

func isNumber(word string) bool { return word != "" && strings.Trim(word, "0123456789") == "" }

// parseAddress reads PORT, HOST:PORT, a path with a slash, or @NAME. listen allows port 0.
func parseAddress(word string, listen bool) (address, error) {
	a := address{"tcp", word}
	switch {
	case isName(word):
		a.network = "unix"
	case isNumber(word):
		a.text = ":" + word
	}
	if err := spec.ValidateAddress(a.network, a.text, listen); err != nil {
		return address{}, verb.Usage("%q is no address, which is PORT, HOST:PORT, a path with a / in it, or @NAME: %w", word, err)
	}
	return a, nil
}

// route is one forward: who connects to listen reaches target.
type route struct {
	listen, target address
	reverse        bool // listen is in the sandbox and target is here
}

// parseRoute reads [HOST:]LISTEN:TARGET.
func parseRoute(word string, reverse bool) (route, error) {
	parts := split(word)
	first := 1
	if len(parts) > 1 && !isNumber(parts[0]) && !isName(parts[0]) {
		first = 2 // HOST:PORT
	}
	if len(parts) <= first || len(parts) > first+2 {
		return route{}, verb.Usage("%q is no forward: want [HOST:]PORT:[HOST:]PORT, with a path or @NAME in place of either", word)
	}
	listen, err := parseAddress(strings.Join(parts[:first], ":"), true)
	if err != nil {
		return route{}, err
	}
	if strings.HasPrefix(listen.text, ":") {
		listen.text = "127.0.0.1" + listen.text
	}
	target, err := parseAddress(strings.Join(parts[first:], ":"), false)
	return route{listen, target, reverse}, err
}

// split cuts at the colons that are in no brackets.
func split(word string) []string {
	depth := 0
	var parts []string
	from := 0
	for i, c := range word {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ':' && depth == 0:
			parts = append(parts, word[from:i])
			from = i + 1
		}
	}
	return append(parts, word[from:])
}
