//go:build linux

package clustertest

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// registry serves images to the node, as a registry on the network does.
type registry struct {
	mu   sync.Mutex
	tags map[string]string // guarded by mu; the digest of each REPOSITORY:TAG
	data map[string][]byte // guarded by mu; manifests and layers by digest
}

// ServeHTTP answers the requests by which containerd pulls.
func (g *registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	repository, reference := path.Split(strings.TrimPrefix(r.URL.Path, "/v2/"))
	repository, manifest := strings.CutSuffix(repository, "/manifests/")
	g.mu.Lock()
	if digest := g.tags[repository+":"+reference]; digest != "" {
		reference = digest
	}
	data, found := g.data[reference]
	g.mu.Unlock()
	if !found {
		http.NotFound(w, r)
		return
	}
	kind := "application/octet-stream"
	if manifest {
		var header struct{ MediaType string }
		if json.Unmarshal(data, &header) == nil && header.MediaType != "" {
			kind = header.MediaType
		}
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Docker-Content-Digest", reference)
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(data)
	}
}

// add reads an OCI layout in a tar file.
func (g *registry) add(repository, tag, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var index struct{ Manifests []struct{ Digest string } }
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.data == nil {
		g.tags, g.data = map[string]string{}, map[string][]byte{}
	}
	for in := tar.NewReader(f); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(in)
		if err == nil && header.Name == "index.json" {
			err = json.Unmarshal(data, &index)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
		if strings.HasPrefix(header.Name, "blobs/") {
			g.data[fmt.Sprintf("sha256:%x", sha256.Sum256(data))] = data
		}
	}
	if len(index.Manifests) != 1 {
		return fmt.Errorf("%d images, want 1", len(index.Manifests))
	}
	g.tags[repository+":"+tag] = index.Manifests[0].Digest
	return nil
}

// Publish lets the node pull an image, an OCI layout in a tar file, by a name such as ghcr.io/a/b:latest, until
// the test ends.
func (c *Cluster) Publish(t testing.TB, name, file string) {
	t.Helper()
	host, rest, _ := strings.Cut(name, "/")
	repository, tag, _ := strings.Cut(rest, ":")
	if err := c.registry.add(repository, tag, file); err != nil {
		t.Fatalf("image %s: %v", file, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, done := &http.Server{Handler: &c.registry}, make(chan struct{})
	go func() {
		_ = server.Serve(l)
		close(done)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	dir := c.path("registries/" + host)
	err = os.MkdirAll(dir, 0o755)
	if err == nil {
		// Only this server, and not the one on the network, which the node would ask otherwise.
		text := fmt.Sprintf("server = \"http://%[1]s\"\n[host.\"http://%[1]s\"]\ncapabilities = [\"pull\", \"resolve\"]\n", l.Addr())
		err = os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
