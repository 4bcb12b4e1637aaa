package files

import (
	"fmt"

	"github.com/berth-dev/berth/spec"
)

func tooMany(dir string, limit int) error {
	return &spec.Error{Path: dir, Code: spec.CodeTooLarge, Err: fmt.Errorf("more than %d entries", limit)}
}
