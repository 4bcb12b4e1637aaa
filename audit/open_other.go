//go:build !unix

package audit

import "io/fs"

// noFollow is nothing here: a link takes rights that few have.
const noFollow = 0

// private and guarded hold where rights are not a file's mode.
func private(fs.FileMode) bool { return true }
func guarded(fs.FileMode) bool { return true }
