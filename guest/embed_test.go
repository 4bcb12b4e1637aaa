//go:build berth_embed

package guest_test

import (
	"context"
	"testing"

	"github.com/berth-dev/berth/guest"
)

// A program that was built with the binaries inside unpacks them into the cache.
func TestEmbeddedBinary(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		o := guest.BinaryOptions{CacheDir: t.TempDir(), AllowSelf: true}
		first, err := guest.Binary(context.Background(), "linux", arch, o)
		if err != nil || len(first.Args) != 0 || first.Size == 0 {
			t.Fatalf("%+v, %v", first, err)
		}
		second, err := guest.Binary(context.Background(), "linux", arch, o)
		if err != nil || second.Path != first.Path || second.Hash != first.Hash {
			t.Errorf("%+v, %v; want %+v", second, err, first)
		}
	}
}
