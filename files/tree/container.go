package tree

import (
	"bufio"
	"context"
	"errors"
	"io"
	"time"

	"github.com/berth-dev/berth/internal/tarstream"
	"github.com/berth-dev/berth/spec"
)

// FromContainer writes to w what Export would have of a directory whose contents a container
// engine has put into the archive r. The archive is hostile, and read as strictly as any; w gets its end once r has proven its
// own. A file with several names is a hard link of the archive, a symbolic link is as many
// links, and what is left out is so under all of its names. Files cannot be chosen from a
// stream: Exclude and Gitignore are CodeUnsupported.
func FromContainer(ctx context.Context, r io.Reader, w io.Writer, o ExportOptions) (Stats, error) {
	if len(o.Exclude) > 0 || o.Gitignore {
		return Stats{}, spec.New(spec.CodeUnsupported, "of a place that does not run a directory is exported whole: nothing can be excluded")
	}
	if err := o.Limits.Validate(); err != nil {
		return Stats{}, err
	}
	out := bufio.NewWriterSize(w, writeBuffer)
	from := tarstream.NewReader(r, tarstream.Options{Limits: o.Limits, OmitOthers: true, OmitLinks: o.OmitEscapingLinks})
	to := tarstream.NewUncheckedWriter(out)
	var counts tarstream.Counts
	err := tarstream.Copy(to, from, func(h *tarstream.Header) {
		if counts.Add(h); o.ZeroTimes {
			h.ModTime = time.Time{}
		}
	})
	if err == nil {
		err = tarstream.WriteError(to.Close())
	}
	if err == nil {
		err = tarstream.WriteError(out.Flush())
	}
	var refused *RefusedError
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.As(err, &refused) && refused.Reason == BadSymlink:
		err = WithLinkHint(err)
	}
	return statsOf(counts, from.Skipped()), err
}
