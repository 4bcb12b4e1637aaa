// Package limit is the guest's part in the limits of its place: to join the control
// groups that enforce them, to watch what they kill, and to live with them.
package limit
