package spec

import (
	"strings"
)

// Isolation names the wall between a place and what surrounds it.
type Isolation string

// The isolation levels. The empty one means the backend's default, which is
// guard for process, standard for containers and none for ssh.
const (
	IsolationDefault  Isolation = ""
	IsolationNone     Isolation = "none"     // no wall: an ordinary process of the user
	IsolationGuard    Isolation = "guard"    // reads everything but the hidden paths, writes only the writable roots
	IsolationJail     Isolation = "jail"     // only system directories and the workspace exist
	IsolationStandard Isolation = "standard" // a container with the default hardening
	IsolationStrict   Isolation = "strict"   // a container for code that nobody has read
)

// Network names what a place may reach.
type Network string

// The network policies. The empty one means closed where the place has a wall
// to close (guard, jail, containers) and open where it has none.
const (
	NetworkDefault Network = ""
	NetworkNone    Network = "none"    // nothing outside the place
	NetworkLimited Network = "limited" // an allow-list, through a gate
	NetworkOpen    Network = "open"    // whatever the place's surroundings can reach
)

// KillTree says what a place proves when it ends the whole tree of a command.
type KillTree string

// The strengths of a tree kill.
const (
	// KillTreeConfirmed: a cgroup or a pid namespace ended, so nothing is left.
	KillTreeConfirmed KillTree = "confirmed"
	// KillTreeBestEffort: every descendant that could be found was killed, again
	// and again until none was found. A process that hides its ancestry may live. Of a
	// single kill there may be proof all the same, which its KillOutcome says.
	KillTreeBestEffort KillTree = "best_effort"
)

// Isolations is a set of isolation levels.
type Isolations uint8

// isolationOrder gives each level its bit, and sets their order.
var isolationOrder = [...]Isolation{IsolationNone, IsolationGuard, IsolationJail, IsolationStandard, IsolationStrict}

// IsolationSet returns the set of the given levels; unknown ones are left out.
func IsolationSet(levels ...Isolation) Isolations {
	var set Isolations
	for _, l := range levels {
		for i, known := range isolationOrder {
			if l == known {
				set |= 1 << i
			}
		}
	}
	return set
}

// Has reports whether the set holds l.
func (s Isolations) Has(l Isolation) bool { return s&IsolationSet(l) != 0 }

// List returns the levels of the set, weakest wall first.
func (s Isolations) List() []Isolation {
	var out []Isolation
	for _, l := range isolationOrder {
		if s.Has(l) {
			out = append(out, l)
		}
	}
	return out
}

func (s Isolations) String() string { return join(s.List()) }

// MarshalText writes the set as "none,guard".
func (s Isolations) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote; unknown names are left out.
func (s *Isolations) UnmarshalText(text []byte) error {
	*s = 0
	for _, name := range strings.Split(string(text), ",") {
		*s |= IsolationSet(Isolation(name))
	}
	return nil
}

// Networks is a set of network policies.
type Networks uint8

var networkOrder = [...]Network{NetworkNone, NetworkLimited, NetworkOpen}

// NetworkSet returns the set of the given policies; unknown ones are left out.
func NetworkSet(policies ...Network) Networks {
	var set Networks
	for _, p := range policies {
		for i, known := range networkOrder {
			if p == known {
				set |= 1 << i
			}
		}
	}
	return set
}

// Has reports whether the set holds p.
func (s Networks) Has(p Network) bool { return s&NetworkSet(p) != 0 }

// List returns the policies of the set, the most closed first.
func (s Networks) List() []Network {
	var out []Network
	for _, p := range networkOrder {
		if s.Has(p) {
			out = append(out, p)
		}
	}
	return out
}

func (s Networks) String() string { return join(s.List()) }

// MarshalText writes the set as "none,open".
func (s Networks) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote; unknown names are left out.
func (s *Networks) UnmarshalText(text []byte) error {
	*s = 0
	for _, name := range strings.Split(string(text), ",") {
		*s |= NetworkSet(Network(name))
	}
	return nil
}

func join[T ~string](items []T) string {
	var b strings.Builder
	for i, it := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(string(it))
	}
	return b.String()
}
