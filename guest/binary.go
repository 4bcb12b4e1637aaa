package guest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/berth-dev/berth/internal/guestbin"
	"github.com/berth-dev/berth/internal/reexec"
	"github.com/berth-dev/berth/spec"
)

//go:generate env CGO_ENABLED=0 GOWORK=off GOOS=linux GOARCH=amd64 GOAMD64=v1 go build -trimpath -buildvcs=false -ldflags "-s -w" -o bin/berth-guest-linux-amd64 ../cmd/berth-guest
//go:generate env CGO_ENABLED=0 GOWORK=off GOOS=linux GOARCH=arm64 GOARM64=v8.0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o bin/berth-guest-linux-arm64 ../cmd/berth-guest

// BinaryOptions say where a guest binary may come from. The zero value takes an
// embedded one, else one from the cache, else builds it.
type BinaryOptions struct {
	// Path is the binary to use; nothing else is tried.
	Path string
	// CacheDir holds what was unpacked and built. "": berth in the user's cache
	// directory.
	CacheDir string
	// AllowSelf takes the running program itself where it is of the platform
	// that is asked for and its main has called selfexec.Main.
	AllowSelf bool
	// Untrusted are directories that commands can write: no go command that lies
	// in one is run.
	Untrusted []string
	// Progress, if set, is called when something takes long: a build.
	Progress func(spec.Progress)
}

// Bin is a guest binary on this machine.
type Bin = guestbin.Bin

// Binary finds the guest binary for a platform, in this order: o.Path; the one that
// is embedded in this program (build tag berth_embed); this program itself, if
// o.AllowSelf; the cache; a build from this module's own source with the local Go
// toolchain, which goes into the cache. A source that has changed is built again.
//
// What is in the cache is used only if its size and hash are as recorded. Concurrent
// callers, in this process and in others, share one build. A platform without a
// guest is CodeUnsupported. If no way leads to a binary the error is CodeUnavailable,
// and its Hint says what can be done. ctx ends a build that is under way.
func Binary(ctx context.Context, goos, goarch string, o BinaryOptions) (Bin, error) {
	if goos != "linux" || (goarch != "amd64" && goarch != "arm64") {
		return Bin{}, &spec.Error{
			Code: spec.CodeUnsupported, Err: fmt.Errorf("there is no guest for %s/%s", goos, goarch),
			Hint: "a place must run linux on amd64 or arm64",
		}
	}
	if err := ctx.Err(); err != nil {
		return Bin{}, err
	}
	if o.Path != "" {
		return explicit(o.Path)
	}
	if data := embedded(goos + "-" + goarch); data != nil {
		c, err := guestbin.OpenCache(o.CacheDir)
		if err != nil {
			return Bin{}, err
		}
		return c.Unpack(ctx, goos+"-"+goarch, data)
	}
	if o.AllowSelf && goos == runtime.GOOS && goarch == runtime.GOARCH && reexec.Possible() {
		return self()
	}
	c, err := guestbin.OpenCache(o.CacheDir)
	if err != nil {
		return Bin{}, err
	}
	return c.Build(ctx, goos, goarch, o.Untrusted, o.Progress)
}

func explicit(path string) (Bin, error) {
	abs, err := filepath.Abs(path)
	if err == nil {
		var bin Bin
		if bin, err = guestbin.Inspect(abs); err == nil {
			return bin, nil
		}
	}
	return Bin{}, &spec.Error{
		Code: spec.CodeUnavailable, Err: fmt.Errorf("the guest binary that was named: %w", err),
		Hint: "name a berth-guest binary, or none to have one found",
	}
}

func self() (Bin, error) {
	path, err := os.Executable()
	if err != nil {
		return Bin{}, guestbin.Nowhere(err)
	}
	bin, err := guestbin.Inspect(path)
	if err != nil {
		return Bin{}, guestbin.Nowhere(err)
	}
	bin.Args = []string{reexec.Arg}
	return bin, nil
}
