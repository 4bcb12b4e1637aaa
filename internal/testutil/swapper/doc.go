// Package swapper is an enemy for tests: it exchanges a directory for a symbolic link
// that leads out, again and again, while the code under test uses the name, and knows of
// a directory outside whether anything there was touched or has got out.
package swapper
