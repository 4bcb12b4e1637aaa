package guest

import (
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest/internal/remotefs"
)

// watchMinor and treesMinor are the protocols that have watches and whole trees.
const watchMinor, treesMinor = 3, 3

// Files implements driver.Session. See package files for the contract; in addition
// the ctx of Open bounds the life of the File that it returns. What it returns has every
// optional interface of package files but Namer.
func (s *Session) Files() files.FS { return remotefs.New(asking{s}) }
