//go:build !unix

package transfer

// openFlags are none where no file waits to be opened.
const openFlags = 0
