// Package filescmd holds the verbs of berth for files: cp, cat, write, and the group
// files. A path of a sandbox is written KEY:PATH.
package filescmd
