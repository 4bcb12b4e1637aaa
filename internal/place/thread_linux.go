package place

import (
	"os/exec"
	"slices"

	"github.com/berth-dev/berth/internal/idmap"
	"github.com/berth-dev/berth/internal/place/begin"
)

// begin starts cmd, which is what the plan says.
func (r *Root) begin(cmd *exec.Cmd, plan *Plan) (err error) {
	if plan.Drop == nil {
		return cmd.Start()
	}
	begin.OnOwnThread(func() {
		if len(plan.Idmapped) > 0 {
			err = r.Idmap.Attach(idmap.Identity(*plan.Drop), plan.Idmapped, append(slices.Clone(plan.Guest), "version"))
		}
		if err == nil {
			begin.EmptyBoundingSet()
			err = cmd.Start()
		}
	})
	return err
}
