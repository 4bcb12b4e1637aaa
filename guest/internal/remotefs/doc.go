// Package remotefs is files.FS over the wire: the files of a place as its guest serves
// them, checked before they are asked for and again when they come. The guest lives
// among untrusted code: every name, number and stream that it sends is bounded, and no
// path that it says becomes one of the host.
package remotefs
