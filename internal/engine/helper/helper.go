// Package helper makes containers that never run: ways into volumes through the engine's
// API, for a client that has no part in the engine's file system. One of them fills the
// volume that holds a guest.
package helper

import (
	"archive/tar"
	"bytes"
	"path"
	"strings"
	"time"

	"github.com/berth-dev/berth/internal/engine/account"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// Label is on every helper. It is read back: its name is for ever.
const Label = "dev.berth.helper"

// Options describe a helper of an image that has some mounts.
func Options(name, image string, mounts ...mount.Mount) client.ContainerCreateOptions {
	return client.ContainerCreateOptions{
		Name: name,
		Config: &container.Config{
			Image: image, Entrypoint: []string{GuestPath}, Cmd: []string{}, WorkingDir: "/",
			Labels: map[string]string{Label: "true"},
		},
		HostConfig: &container.HostConfig{NetworkMode: "none", Mounts: mounts},
	}
}

// Member is one entry of an archive.
type Member struct {
	tar.Header
	Data []byte
}

// Directory is an entry that makes a directory of its owner, or gives it to them.
func Directory(name string, mode int64, owner account.User) Member {
	return Member{Header: tar.Header{
		Typeflag: tar.TypeDir, Name: strings.TrimPrefix(path.Clean(name), "/") + "/", Mode: mode,
		Uid: owner.UID, Gid: owner.GID, ModTime: time.Now(),
	}}
}

// Pack makes an archive.
func Pack(members ...Member) ([]byte, error) {
	var buf bytes.Buffer
	archive := tar.NewWriter(&buf)
	for _, m := range members {
		m.Size = int64(len(m.Data))
		if err := archive.WriteHeader(&m.Header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(m.Data); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return buf.Bytes(), err
}
