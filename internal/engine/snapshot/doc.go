// Package snapshot keeps the files of a container as an image, and finds and removes such
// images.
//
// # Taking one
//
// The container is committed, which leaves out what lies in its volumes; a helper that never
// runs is made of that image and is given the contents of the volumes, streamed from the
// container through this process to the helper; the helper is committed, and that image is
// the snapshot. In the helper the directory of the guest's state is emptied, the variables
// that the place's spec had given have the values of its image, or none, and the labels of
// the place are empty: what is made of the image is no place of anybody, knows no secret, and
// no jobs. A volume that the place's image declares cannot be kept, and is refused: whatever is
// made of that image has a new one there.
//
// Podman makes an image of a container declare its volumes, and in its archives of what is in
// one everything has one owner. Only a place with a read-only root has volumes that could be
// kept, and its root is its image's: so the helper is made of that, with no commit before, and
// a guest that has the volumes in a container of its own writes what is in them, owners and
// all. With such a root Podman has /run and /var/tmp in memory: where files are in those, the
// snapshot is refused, as where anything else is in memory.
//
// A Docker engine of old, 20.10 say, notes in the image between the two how the container was
// made, with the values of its variables: whoever may ask the engine can read them there while
// the snapshot lives, as while the place did. What is saved or pushed of a snapshot has no
// part of that image but its files.
//
// Nothing runs in the place from the first commit to the last, or the snapshot is given up.
// One at a time takes one of a place: whoever does has a container meanwhile, of a name that is
// made of the place's, and writes into it now and then. Others wait for its end, or take over
// from one that has stopped writing: its client has died, or is so slow that it finds its
// container gone and gives its snapshot up.
//
// # Names
//
// A snapshot is there while its image has its name, "berth-snapshot/" and a hash of the owner
// with the id as the tag. One that is removed while a container uses it cannot go: it is
// renamed, to "berth-removed:" and a part of its own id, and goes with the last place that
// was made of it, or with a prune.
package snapshot
