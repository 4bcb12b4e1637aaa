// Package repository reads what git keeps in its directories, of which a command may have
// written every part: it waits for no pipe, reads no more than it should, and believes
// nothing. Paths are as they are found; whoever uses one follows it first.
package repository
