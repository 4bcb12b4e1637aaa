// Package killtest proves that a client may be killed at any moment: Work is such a
// client, which starts jobs and writes files in a place, and Run kills one after the
// other and looks at what they leave.
package killtest
