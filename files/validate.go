package files

import (
	"context"
	"encoding/hex"

	"github.com/berth-dev/berth/spec"
)

// Validate refuses options that make no sense, with CodeInvalid or CodeInvalidPath. A
// place that is far away asks before it sends anything.
func (o WriteOptions) Validate() error {
	const sha256Digits = 64
	if o.IfSHA256 == "" {
		return nil
	}
	if _, err := hex.DecodeString(o.IfSHA256); err != nil || len(o.IfSHA256) != sha256Digits {
		return spec.New(spec.CodeInvalid, "a SHA-256 has 64 hex digits")
	}
	return nil
}

// Validate refuses options that make no sense, with CodeInvalid or CodeInvalidPath.
func (o GlobOptions) Validate() error {
	_, err := newGlob(context.Background(), nil, o)
	return err
}

// Validate refuses options that make no sense, with CodeInvalid or CodeInvalidPath.
func (o GrepOptions) Validate() error {
	g, err := newGrep(context.Background(), nil, o, nil)
	if err != nil {
		return err
	}
	return g.o.Files.Validate()
}

// Validate refuses options that make no sense, with CodeInvalid.
func (o WatchOptions) Validate() error {
	_, err := newFilter(nil, "", o.Exclude)
	return err
}
