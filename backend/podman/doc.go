// Package podman makes places that are Podman containers, reached through Podman's
// service (podman system service), which speaks Docker's API: 4.0 or later, with root or
// without.
//
// A place is what it is with backend/docker, and is made by the same code: names, labels,
// the guest's volume, hardening and what is read back are described there. This differs:
//
//   - There is no daemon. The service may end and be started again, by its socket or by
//     hand, while containers run on and commands in them too: what breaks is the stream,
//     which is dialled again. Options.Service says how one is started where none answers.
//   - Which runtime, resource limits and capabilities a container has by default is what
//     containers.conf says to the service. Podman reports dropped capabilities against
//     that default, and one that is in no default is not reported: it was never there.
//   - Named runtimes are refused unless the service's own configuration names the same one;
//     a seccomp profile is handed over as a file of this machine for the time of the
//     creation.
//   - The volumes of a place with a read-only root are read for a snapshot by a guest in a
//     container that has them too. What is in /run and /var/tmp there is in memory, and is
//     refused. A directory below which something is mounted is not exported of a place that
//     does not run.
//   - Without root the profile strict has a user namespace that keeps the ids of the user whose
//     engine it is, unless a user is named: what commands make in a directory that is mounted
//     is that user's. Root's engine has none.
//   - Its state has names of its own (configured, stopped): they are translated.
//   - A short image name is one of docker.io.
//   - Without root it limits nothing and suspends nothing on a kernel with control groups
//     of version 1: the limits are undeclared, and what asks for them is refused. Its open
//     network takes slirp4netns and the device /dev/net/tun, and no container joins another
//     one that has the network of the machine.
package podman
