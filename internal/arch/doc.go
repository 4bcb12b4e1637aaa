// Package arch holds no code: its tests keep the module's shape. They read the
// source with go/parser and print the rule that a violation breaks.
package arch
