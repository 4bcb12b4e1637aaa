// Package cli is the berth command: one file for each verb, and each verb turns
// flags into options, makes a call of the library, and prints. There is nothing
// here that a Go program could not do by the public packages.
//
// The verbs for files and for jobs are in packages below, and so is what all share:
// package verb finds sandboxes and reads flags, package console speaks to a person.
//
// # Output
//
// A command's own bytes pass through unchanged, both ways. Berth's results go to
// stdout, everything else to stderr. With --json, results and errors are JSON, one
// object a line, on stdout. Whatever comes out of a sandbox and is shown to a person
// in a listing or a message has its control characters escaped.
//
// # Exit status
//
// run, exec and jobs wait pass the command's own status through; 124 means timed out,
// 125 that berth itself failed, 126 and 127 that the program could not be started. The
// other verbs use the code table of package spec.
package cli
