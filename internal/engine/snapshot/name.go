package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// The labels of a snapshot's image, which containers made of it inherit. They are read
// back: their names are for ever.
const (
	LabelID      = "dev.berth.snapshot"
	LabelOwner   = "dev.berth.snapshot-owner"
	LabelKey     = "dev.berth.snapshot-key"
	LabelWorkdir = "dev.berth.snapshot-workdir"
	LabelCreated = "dev.berth.snapshot-created"
	LabelBase    = "dev.berth.snapshot-base" // bytes of the image that the place was made of
	// LabelUnset holds names of variables, with commas between them, which the image sets to
	// nothing, as no image can be told to forget one.
	LabelUnset = "dev.berth.snapshot-unset"
)

// LabelPlace is on a place, and so on what somebody makes of one; on what is made here it is
// empty.
const LabelPlace = "dev.berth.key"

const (
	repository        = "berth-snapshot/"
	removedRepository = "berth-removed"
	// helperPrefix begins the names of the containers that snapshots are made through. Labels
	// of theirs would become the image's.
	helperPrefix = "berth-snap-"
)

// Reference names the image of a snapshot to an engine.
func Reference(owner, id string) string {
	sum := sha256.Sum256([]byte(owner))
	return repository + hex.EncodeToString(sum[:8]) + ":" + id
}

// removedReference is the name of a snapshot that is removed and still used.
func removedReference(image string) string {
	id := strings.TrimPrefix(image, "sha256:")
	return removedRepository + ":" + id[:min(len(id), 12)]
}

// Alive reports whether an image that has these tags is a snapshot that has not been
// removed. Some engines put the name of a registry before them.
func Alive(tags []string) bool {
	for _, tag := range tags {
		if strings.HasPrefix(tag, repository) || strings.Contains(tag, "/"+repository) {
			return true
		}
	}
	return false
}

// Removed reports whether a tag is the name of a snapshot that is removed and still used.
func Removed(tag string) bool {
	return strings.HasPrefix(tag, removedRepository+":") || strings.Contains(tag, "/"+removedRepository+":")
}

// Helper reports whether a container of this name is one that a snapshot is made through,
// or was to be.
func Helper(name string) bool { return strings.HasPrefix(strings.TrimPrefix(name, "/"), helperPrefix) }

// claimOn is the name of the container that whoever gives a snapshot its name has meanwhile.
func claimOn(reference string) string {
	sum := sha256.Sum256([]byte(reference))
	return helperPrefix + "name-" + hex.EncodeToString(sum[:8])
}

// HoldOn is the name of the container that whoever takes a snapshot of a place has meanwhile.
func HoldOn(place string) string { return helperPrefix + "of-" + place }

// Claim reports whether a helper is one that is there for a moment only.
func Claim(name string) bool {
	return strings.HasPrefix(strings.TrimPrefix(name, "/"), helperPrefix+"name-")
}
