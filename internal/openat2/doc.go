// Package openat2 is openat2(2) with the words by which a filter of system calls knows its
// maker: a filter cannot see what the call does, because its flags and its mode are in
// memory, so that it refuses it to all who do not have the words.
//
// Without words it is the plain call. It is safe for concurrent use.
package openat2
