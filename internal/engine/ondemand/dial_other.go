//go:build !linux

package ondemand

import (
	"context"
	"io/fs"
	"net"
)

// Dial reports that there is no such service, which is fs.ErrNotExist: elsewhere containers
// run in a virtual machine, with a service of its own.
func (s *Service) Dial(context.Context) (net.Conn, error) { return nil, fs.ErrNotExist }
