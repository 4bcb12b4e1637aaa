// Package made keeps, in a directory, what has appeared in places that have ended: names
// that programs outside run or obey, each until somebody who starts a place there was told.
package made
