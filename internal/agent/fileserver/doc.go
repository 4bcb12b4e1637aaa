// Package fileserver answers a host that works on the files of a place: each request
// becomes a call of package files, which runs where the files are.
package fileserver
