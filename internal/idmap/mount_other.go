//go:build !linux

package idmap

// Try returns ErrUnable.
func (m *Mapper) Try([]string) error { return ErrUnable }
