//go:build !unix

package isolate

// ownedBy reports true: there is no guard here, and nothing to own.
func ownedBy(string, string) bool { return true }
