// Package selfexec lets a program be its own guest: one call of Main at the top of
// main, or of TestMain, and a backend on the same platform needs no guest binary.
//
//	func main() {
//		selfexec.Main()
//		...
//	}
//
// Nothing is built or unpacked then, and under the race detector the guest is
// checked too. It suits places that run this machine's programs; a container whose
// file system is another needs the static binary that guest.Binary finds or builds.
package selfexec
