//go:build linux

package dockertest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Registry is a registry of images that the engine can pull from. It has one image, with BusyBox.
type Registry struct {
	// Image is the name of its image.
	Image string
	// Server is its address, as in the docker configuration.
	Server string
}

// NewRegistry starts a registry in the network of the engine. If user is not empty, it serves that
// user alone.
func (e *Engine) NewRegistry(t testing.TB, user, password, arch string) *Registry {
	t.Helper()
	l, err := e.listen()
	if err != nil {
		t.Fatal(err)
	}
	box, err := busybox()
	if err != nil {
		t.Fatal(err)
	}
	layer, err := box.archive()
	if err != nil {
		t.Fatal(err)
	}
	blobs := map[string][]byte{}
	add := func(data []byte) string {
		sum := sha256.Sum256(data)
		digest := "sha256:" + hex.EncodeToString(sum[:])
		blobs[digest] = data
		return digest
	}
	config, _ := json.Marshal(map[string]any{
		"architecture": arch, "os": "linux", "config": map[string]any{"Env": []string{"PULLED=yes"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{add(layer)}},
	})
	const kind = "application/vnd.docker.distribution.manifest.v2+json"
	manifest, _ := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": kind,
		"config": map[string]any{"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": add(config)},
		"layers": []any{map[string]any{"mediaType": "application/vnd.docker.image.rootfs.diff.tar", "size": len(layer), "digest": add(layer)}},
	})
	manifestDigest := add(manifest)
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
		if u, p, _ := r.BasicAuth(); user != "" && (u != user || p != password) {
			w.Header().Set("Www-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		data, digest := blobs[filepath.Base(r.URL.Path)], filepath.Base(r.URL.Path)
		switch {
		case r.URL.Path == "/v2/":
			return
		case strings.HasPrefix(r.URL.Path, "/v2/test/box/manifests/") && (digest == "1" || strings.HasPrefix(digest, "sha256:")):
			w.Header().Set("Content-Type", kind)
			data, digest = manifest, manifestDigest
		case !strings.HasPrefix(r.URL.Path, "/v2/test/box/blobs/") || data == nil:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)
			return
		}
		w.Header().Set("Docker-Content-Digest", digest)
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(data)
		}
	})
	server := &http.Server{Handler: serve}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return &Registry{Server: l.Addr().String(), Image: l.Addr().String() + "/test/box:1"}
}

// listen listens on the loopback interface in the network namespace of the engine.
func (e *Engine) listen() (net.Listener, error) {
	type result struct {
		l   net.Listener
		err error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with this goroutine, in the other namespace
		namespace, err := os.Open(filepath.Join(e.dir, "net"))
		if err != nil {
			done <- result{err: err}
			return
		}
		defer namespace.Close()
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- result{err: err}
			return
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		done <- result{l, err}
	}()
	r := <-done
	return r.l, r.err
}
