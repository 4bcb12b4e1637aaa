package isolate

import (
	"fmt"
	"strconv"

	"github.com/berth-dev/berth/internal/isolate/inode"
	"github.com/berth-dev/berth/spec"
)

// pinned are the arguments that tell the program what lies at each of the paths now, none
// of which may be reached by a link: it does not serve if the wrapper, which follows the
// names once more, has mounted something else. Commands of another sandbox may change a
// directory on the way in between.
func pinned(paths []string) ([]string, error) {
	var args []string
	for _, path := range paths {
		dev, ino, err := inode.Of(path)
		if err != nil {
			return nil, &spec.Error{Code: spec.CodeUnavailable, Path: path, Err: fmt.Errorf("this path is being changed: %w", err), Hint: "try again when nothing moves it"}
		}
		args = append(args, "--mounted", strconv.FormatUint(dev, 10)+":"+strconv.FormatUint(ino, 10)+":"+path)
	}
	return args, nil
}
