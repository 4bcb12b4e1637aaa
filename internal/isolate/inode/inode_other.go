//go:build !linux

// Package inode says by number what lies at a path: not here.
package inode
