//go:build !linux

package isolate

func pinned([]string) ([]string, error) { return nil, nil }
