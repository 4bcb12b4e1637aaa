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
// builds anew. An image that so loses its name has one that begins with "was-" while something
// uses it. An image of those labels that has no name is one that somebody has made of ours, and
// no prune removes it.
//
// BuildKit builds where the engine has it, the classic builder elsewhere: on Podman, whose
// service has one of its own under that name and knows RUN --mount too; on an engine that is
// configured for it ("features": {"buildkit": false}), or behind a proxy that lets no session
// through; and where Options say so. Docker 20.10 has BuildKit and says nothing of it: it is
// used there too. What a Dockerfile may hold is the builder's: here-documents need a
// "# syntax=" line on an engine as old as that, since its BuildKit has no such thing built in.
// The frontend that such a line names is pulled without credentials, unless the Dockerfile
// has a base of the same registry.
//
// A Dockerfile that is not in its context is no part of the image. BuildKit gets the files of
// such a build by asking for them, since it would copy all of an archive; the classic builder
// gets an archive whose .dockerignore names the Dockerfile.
//
// Name and labels of an image do not depend on who built it. What BuildKit keeps to be faster
// the next time is the engine's own, shared by all who build there: Prune leaves it alone
// (docker builder prune removes it).
//
// The context is read through os.Root and sent as a stream: no link leads out of it, and
// its size costs no memory. It is hashed again while it is sent, each file where BuildKit asks
// for it, so that an image never gets the name of files that have changed meanwhile.
package image
