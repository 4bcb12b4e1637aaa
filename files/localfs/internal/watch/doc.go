// Package watch tells what changes in a directory, to any depth, by the kernel's inotify.
// Linux only.
//
// The kernel tells of a directory's entries by a watch that is bound to the directory
// itself, wherever it is moved to. What it is called is kept here: a directory knows the
// one above and its own name, and a rename changes that alone.
//
// What the kernel told lies in a queue, and the tree may have changed since. So no
// decision rests on a path. A directory that is found by its path counts as the one that
// is meant if the kernel answers with the same watch; another one, or none, means that
// something in the queue explains it, and it is looked for again after that. A directory
// that is new is watched first and listed then, and all that is in it told as created.
//
// Where something runs out - watches, descriptors, memory - there is an overflow, and what
// was refused is tried again every second; when it is watched at last there is another.
package watch
