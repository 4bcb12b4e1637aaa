// Package drop makes a guest that root has started an ordinary user, for good: another
// uid and gid, no supplementary group, no capability in any set, and no way to a new
// privilege by executing something. What it starts cannot be more than it is.
package drop
