package engine

import (
	"bytes"
	"encoding/json"

	"github.com/berth-dev/berth/spec"
)

// CompactProfile takes the white space out of a profile of system calls: it makes no other
// place.
func CompactProfile(profile string) (string, error) {
	if profile == "" {
		return "", nil
	}
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(profile)); err != nil {
		return "", spec.New(spec.CodeInvalid, "seccomp profile: it is no JSON")
	}
	return out.String(), nil
}

// NoNewPrivileges is the option of a container whose programs gain no privileges.
const NoNewPrivileges = "no-new-privileges"

// GainsNothing reports whether programs of a place are kept from gaining privileges.
func GainsNothing(h spec.Hardening) bool { return h.NoNewPrivileges || len(h.DropCaps) > 0 }

// IsNoNewPrivileges reports whether an option of a container is NoNewPrivileges, however the
// engine writes it.
func IsNoNewPrivileges(opt string) bool {
	return opt == NoNewPrivileges || opt == NoNewPrivileges+":true" || opt == NoNewPrivileges+"=true"
}

// SecurityOptions are the options of a container with a hardening.
func SecurityOptions(h spec.Hardening) []string {
	var out []string
	if GainsNothing(h) {
		out = append(out, NoNewPrivileges)
	}
	if h.Seccomp != "" {
		out = append(out, SeccompOption+h.Seccomp)
	}
	return out
}
