package cgroup

import (
	"path/filepath"
	"slices"
	"strings"
)

// The bounds on a search for a group by its name.
const (
	maxLookedAt = 8192
	maxDepth    = 12
)

// Lookup finds the directories of a group called name, also as a scope, in all hierarchies, wherever they
// are: for a group whose maker did not come to write down where it had made it. It looks
// at no more than 8192 groups in each hierarchy.
func (h *Host) Lookup(name string) []string {
	if validName(name) != nil {
		return nil
	}
	var out, seen []string
	for _, k := range kinds {
		t, here := h.at[k]
		if !here || slices.Contains(seen, t.mount) {
			continue
		}
		seen = append(seen, t.mount)
		looked := 0
		level := []string{t.mount}
		for depth := 0; depth < maxDepth && len(level) > 0; depth++ {
			var next []string
			for _, dir := range level {
				if looked++; looked > maxLookedAt {
					break
				}
				for _, child := range children(dir) {
					if strings.TrimSuffix(filepath.Base(child), scopeSuffix) == name {
						out = append(out, child)
					} else {
						next = append(next, child)
					}
				}
			}
			level = next
		}
	}
	return out
}
