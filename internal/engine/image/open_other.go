//go:build !unix

package image

// openFlags are none where no file waits to be opened.
const openFlags = 0
