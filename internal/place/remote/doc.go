// Package remote keeps the places of a machine for a caller on another one, who has no other
// hold on it than a shell: both sides of the requests that travel over its standard
// streams. The guest binary is the far side; a backend is the near one.
package remote
