//go:build !unix

package shellcmd

import "os"

// sizes says when the size of our terminal may have changed, until stop is called: here
// nothing does.
func sizes() (changed <-chan os.Signal, stop func()) { return nil, func() {} }
