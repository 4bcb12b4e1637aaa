// Package guestbin keeps and makes guest binaries on this machine: a cache that
// verifies what it holds, and builds from the module's own source, which all
// processes of a user share. Package guest decides where a binary comes from.
package guestbin
