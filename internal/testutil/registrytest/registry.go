// Package registrytest gives tests a registry of images inside the test: the part of the
// distribution protocol that a pull needs, over plain HTTP on 127.0.0.1, which engines
// allow there. Tests only.
package registrytest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
)

const (
	manifestType = "application/vnd.docker.distribution.manifest.v2+json"
	configType   = "application/vnd.docker.container.image.v1+json"
	layerType    = "application/vnd.docker.image.rootfs.diff.tar.gzip"
	token        = "an-opaque-token"
)

// Options say how a registry behaves. The zero value serves everybody.
type Options struct {
	// User and Password are asked for, by way of a token.
	User, Password string
	// Refuse denies every image to everybody.
	Refuse bool
	// WrongDigest serves other content than a digest names.
	WrongDigest bool
	// Hang serves the first half of a layer and no more, until the client goes or the test
	// ends. [Registry.Recover] ends it for the requests that come after.
	Hang bool
}

// Registry serves images.
type Registry struct {
	// Host is host:port, with which the names of its images begin.
	Host string

	options Options
	mu      sync.Mutex
	blobs   map[string][]byte // by digest; manifests too
	tags    map[string]string // digest by name:tag
	hanging chan struct{}
	ended   chan struct{}
}

// Start starts a registry that ends with the test.
func Start(t testing.TB, o Options) *Registry {
	r := &Registry{options: o, blobs: map[string][]byte{}, tags: map[string]string{}, hanging: make(chan struct{}, 1), ended: make(chan struct{})}
	server := httptest.NewServer(r)
	t.Cleanup(func() {
		close(r.ended)
		server.Close()
	})
	r.Host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// Hanging is told when a layer has begun to hang.
func (r *Registry) Hanging() <-chan struct{} { return r.hanging }

// Recover serves whole layers from now on; those that hang go on hanging.
func (r *Registry) Recover() {
	r.mu.Lock()
	r.options.Hang = false
	r.mu.Unlock()
}

// Add adds an image of two layers under NAME:TAG and returns its digest. Files are those of
// its root, executable.
func (r *Registry) Add(t testing.TB, nameTag string, files map[string][]byte) string {
	t.Helper()
	layers := [][]byte{archive(t, files), archive(t, map[string][]byte{"second-layer": []byte(nameTag)})}
	var diffs []string
	var described []map[string]any
	for _, layer := range layers {
		diffs = append(diffs, digestOf(layer))
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(layer); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		described = append(described, r.put(layerType, packed.Bytes()))
	}
	config := encode(t, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "created": "2020-01-02T03:04:05Z",
		"config": map[string]any{"Cmd": []string{"/true"}}, "rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
	})
	manifest := encode(t, map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": r.put(configType, config), "layers": described,
	})
	digest := r.put(manifestType, manifest)["digest"].(string)
	r.mu.Lock()
	r.tags[nameTag] = digest
	r.mu.Unlock()
	return digest
}

func (r *Registry) put(mediaType string, data []byte) map[string]any {
	digest := digestOf(data)
	r.mu.Lock()
	r.blobs[digest] = data
	r.mu.Unlock()
	return map[string]any{"mediaType": mediaType, "size": len(data), "digest": digest}
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func encode(t testing.TB, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func archive(t testing.TB, files map[string][]byte) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for name, data := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// ServeHTTP implements http.Handler.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.URL.Path == "/token" {
		r.serveToken(w, q)
		return
	}
	if r.options.User != "" && q.Header.Get("Authorization") != "Bearer "+token {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="registrytest"`, r.Host))
		fail(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
		return
	}
	path := strings.TrimPrefix(q.URL.Path, "/v2/")
	if path == "" {
		return
	}
	name, kind, ref := split(path)
	switch {
	case r.options.Refuse:
		fail(w, http.StatusForbidden, "DENIED", "requested access to the resource is denied")
	case kind == "manifests":
		r.serveManifest(w, name, ref)
	case kind == "blobs":
		r.serveBlob(w, q, ref)
	default:
		http.NotFound(w, q)
	}
}

func split(path string) (name, kind, ref string) {
	for _, kind := range []string{"manifests", "blobs"} {
		if name, ref, ok := strings.Cut(path, "/"+kind+"/"); ok {
			return name, kind, ref
		}
	}
	return "", "", ""
}

func (r *Registry) serveToken(w http.ResponseWriter, q *http.Request) {
	if user, password, _ := q.BasicAuth(); user != r.options.User || password != r.options.Password {
		fail(w, http.StatusUnauthorized, "UNAUTHORIZED", "incorrect username or password")
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"token": token})
}

func (r *Registry) serveManifest(w http.ResponseWriter, name, ref string) {
	r.mu.Lock()
	digest := ref
	if tagged, ok := r.tags[name+":"+ref]; ok {
		digest = tagged
	}
	data, ok := r.blobs[digest]
	r.mu.Unlock()
	if !ok {
		fail(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "manifest unknown")
		return
	}
	if r.options.WrongDigest {
		data = append(bytes.TrimSuffix(data, []byte("}")), `,"annotations":{"a":"b"}}`...)
	}
	w.Header().Set("Content-Type", manifestType)
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	_, _ = w.Write(data)
}

func (r *Registry) serveBlob(w http.ResponseWriter, q *http.Request, digest string) {
	r.mu.Lock()
	data, ok := r.blobs[digest]
	hang := r.options.Hang
	r.mu.Unlock()
	if !ok {
		fail(w, http.StatusNotFound, "BLOB_UNKNOWN", "blob unknown")
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	if !hang || bytes.HasPrefix(data, []byte("{")) {
		_, _ = w.Write(data)
		return
	}
	_, _ = w.Write(data[:len(data)/2])
	_ = http.NewResponseController(w).Flush()
	tell(r.hanging)
	select {
	case <-q.Context().Done():
	case <-r.ended:
	}
}

func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []map[string]string{{"code": code, "message": message}}})
}
