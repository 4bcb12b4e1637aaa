// Package verb is what the verbs of berth have in common: the settings that they run
// with, the sandboxes that they find, the flags of a command, and the errors that are
// not the library's.
package verb
