// Package wire is the protocol between a host and a guest: the only thing that
// the two share. It is internal; what is promised is the behaviour, kept by the
// version in the hello.
//
// # Flow
//
// A connection is any io.ReadWriteCloser. Both sides open with one hello frame in
// clear, magic first, so that a shell's error message is recognised as what it is.
// Then yamux runs on it, with the host as the client. Only the host opens streams;
// a guest that opens one has broken the protocol and is cut off.
//
//	host                                guest
//	 | BRTH hello{version,epoch,...}  -> |
//	 | <- BRTH hello{version,caps,...}   |   or hello{error}, then close
//	 |============ yamux ================|
//	 | stream 1: request{op:"stat"}   -> |
//	 | <- reply{info}                    |
//	 | stream 3: request{op:"exec",id}-> |   control of one command
//	 | stream 5: request{op:"data",id,1} |   its stdout
//	 | stream 7: request{op:"data",id,2} |   its stderr
//	 | <- 3: event{started}              |
//	 | <- 5: data data end               |
//	 | -> 3: control{signal}             |
//	 | <- 3: event{exit}                 |
//
// # Frames
//
// A frame is one byte of kind, four bytes of big-endian length, then the payload:
// FrameJSON (a message), FrameData (raw bytes), FrameEnd (no payload: the data is
// complete). Bulk data and the control of a command never share a stream. A
// receiver states the largest payload that it takes of each kind and refuses more.
//
// What is small and many - the matches and lines of a search, the files of a batch, the
// changes of a watch - is a stream of records in data frames, which says nothing about
// where frames end.
//
// A directory travels as a tar archive in data frames, in either direction. Its end marker
// proves nothing: the end frame does, and the reply behind it, which counts what was in it
// (export) or has landed (import). The host reads both with the same strict reader.
//
// The side that opened a stream closes it first; the guest reads to the end before
// it closes. A stream that ends without FrameEnd or a final reply was cut: nothing
// is ever inferred from silence.
//
// # Connections
//
// A connection into a place, or out of it, is one stream with data frames in both
// directions; see OpDial. It belongs to the connection of the host and ends with it.
//
// # Resuming
//
// A command belongs to the guest, not to the connection. When one breaks, the host
// dials again, sends "attach" with the command's id, and opens its data streams at
// the offsets it has reached. Each sender keeps the last window of bytes for that
// (Ring). A request for a command of which nothing was heard is sent again under the same
// id: only to the guest that it was sent to first, and only as long as that surely knows
// whether it has had it. A command without a key that nobody attaches to again is ended
// after the resume window.
package wire
