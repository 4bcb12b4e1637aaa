// Package event keeps what happens to a place, and tells those who listen.
//
// Whoever causes something records it in the one Feed of the guest. Listeners read the
// kept events by their numbers, each as fast as it can: one that has fallen behind is
// told how many it has missed, and holds up nothing.
package event
