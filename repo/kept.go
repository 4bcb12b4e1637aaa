package repo

import (
	"context"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// KeptBranches returns the branches that BranchPrefix begins and that belong to no work tree
// of this data directory, by name: what was committed in one that has been removed since. A
// context that ends leaves nothing behind.
func (r *Repository) KeptBranches(ctx context.Context) ([]string, error) {
	kept, err := r.keptBranches(ctx)
	return kept, spec.Wrap(err, "list", "", "", r.Dir())
}

func (r *Repository) keptBranches(ctx context.Context) ([]string, error) {
	all, err := r.Worktrees(ctx)
	if err != nil {
		return nil, err
	}
	used := make(map[string]bool)
	for _, w := range all {
		used[w.Branch] = true
	}
	if err := r.calmRefs(); err != nil {
		return nil, err
	}
	text, err := r.git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/"+BranchPrefix).run(ctx)
	if err != nil {
		return nil, failed(err, spec.CodeUnavailable)
	}
	kept := []string{}
	for branch := range strings.Lines(text) {
		if branch = strings.TrimSuffix(branch, "\n"); !used[branch] {
			kept = append(kept, branch)
		}
	}
	return kept, nil
}
