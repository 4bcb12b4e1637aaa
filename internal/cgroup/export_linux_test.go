package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Below returns a Host whose own group, in each hierarchy that holds dir, is dir.
func (h *Host) Below(dir string) *Host {
	out := *h
	out.at = map[Kind]hierarchy{}
	for k, t := range h.at {
		if rel, err := filepath.Rel(t.mount, dir); err == nil && filepath.IsLocal(rel) {
			t.own = dir
		}
		out.at[k] = t
	}
	return &out
}

// Fake returns what Discover makes of these texts, on a machine on which files stand for
// the kernel's: every directory that is made gets those of files ("-> X" is a link to X).
func Fake(mountinfo, membership string, files map[string]string) *Host {
	h := discover(mountinfo, membership)
	h.mkdir = func(dir string) error {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		for name, content := range files {
			file := filepath.Join(dir, name)
			err := os.WriteFile(file, []byte(content), 0o644)
			if target, ok := strings.CutPrefix(content, "-> "); ok {
				err = errors.Join(os.Remove(file), os.Symlink(target, file))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	h.rmdir = os.RemoveAll
	return h
}

// Kinds lists what Discover has found.
func (h *Host) Kinds() []Kind {
	var out []Kind
	for _, k := range kinds {
		if _, ok := h.at[k]; ok {
			out = append(out, k)
		}
	}
	return out
}

// WithScopes has systemd's part done by fn, as if it ran the machine.
func (h *Host) WithScopes(fn func(name string, properties []string) (string, *os.File, error)) *Host {
	h.scope = fn
	return h
}

// Scopes reports whether groups are scopes of systemd here.
func (h *Host) Scopes() bool { return h.scope != nil && h.at[CPU].unified }

// Unified reports whether a kind is limited by v2 here.
func (h *Host) Unified(k Kind) bool { return h.at[k].unified }
