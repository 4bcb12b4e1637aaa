// Package ssh makes places on another machine, reached by SSH.
//
// It needs an account there with a POSIX login shell (fish will do) on Linux x86_64
// or aarch64, a key that logs in, and the host's key in a known_hosts file; there is
// no option to do without the latter. Nothing has to be installed: the guest binary
// is uploaded once, by its hash, to the state directory.
//
// # What is where
//
//	<RemoteDir>/guest/berth-guest-<16 hex>  the guest binary; other versions lie beside it
//	<RemoteDir>/...                         places, as internal/place keeps them
//
// Each connection to a guest is one SSH channel that runs "berth-guest place connect":
// it makes, adopts or finds the place, and relays the channel to its guest. The guest
// is a process of its own there and outlives the channel, the connection and this
// program: a command survives a lost connection for the resume window, a place
// without a key is gone 30 s after its last client. Where this machine vanishes
// without a word, the guest notices after a minute of silence.
//
// A host that ends all processes of a user at logout (systemd-logind with
// KillUserProcesses=yes) ends guests too, unless the user lingers: loginctl
// enable-linger.
//
// # What is enforced
//
// Nothing: a place is an ordinary set of processes of the remote user, with that
// user's files and network. Isolation none and an open network are all that can be
// asked for; the kill of a tree is as strong as the guest says (Caps.KillTree).
//
// # Connections
//
// All sessions of a driver share a TCP connection, dialled when it is needed. It is
// probed every 15 s and given up after three misses; sessions then dial again. Where
// the server allows no more channels on it (MaxSessions), another is dialled. A
// connection is closed 2 s after its last channel, and nothing runs in an idle driver.
//
// # Errors
//
// A host that cannot be resolved, reached or talked to is CodeUnavailable; a host key
// that is unknown, changed or revoked, and a login that is refused, are
// CodePermission. Each says on one line what happened, and in its Hint what to do.
//
// # Injection
//
// Remote shells see constant scripts, and arguments in single quotes; everything else
// travels as data in frames. A RemoteDir with spaces, quotes or $() is a directory of
// that name.
//
// There is no process.go: package guest runs the commands.
package ssh
