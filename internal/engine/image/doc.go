// Package image gets, makes, lists and removes the images of a container engine.
//
// # Pull
//
// What an engine says of a registry comes as words, with a status that means little: the
// words that the distribution protocol has for its errors are looked for, and what they
// do not tell is an unreachable registry. Credentials are those of the docker command, in
// its config.json and the docker-credential programs that it names; an engine gets those
// of the registries that it is to ask, and no others.
//
// # Build
//
// An image is named after what it is made of: "localhost/berth-build:" and twelve hex
// digits of the Dockerfile, the regular files of the context, and the arguments. Equal
// files are one image, and nothing is built where the engine has it. A .dockerignore is
// not read for that: it costs builds that were not needed, and never keeps a stale image.
// Not covered are modes, links, empty directories, and a base image that has moved: Force
// builds anew.
//
// The engine's classic builder is used, on every engine: what docker build calls BuildKit
// asks its client for the files and for credentials through a session, a protocol of its
// own, without which engines of version 20.10 resolve no base image of a registry. A
// Dockerfile that needs it (RUN --mount, here-documents) is built with the engine's own
// command, and the image named.
//
// The context is read through os.Root and sent as a stream: no link leads out of it, and
// its size costs no memory. It is hashed again while it is sent, so that an image never
// gets the name of files that have changed meanwhile.
package image
