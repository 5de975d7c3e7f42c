package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image is what an image of TRL contains and starts.
type image struct {
	name   string
	files  func(programs) ([]file, error)
	config v1.Config
}

// The user of the daemon's image, as in dist/kubernetes/daemon.yaml.
const passwd = "root:x:0:0:root:/:/sbin/nologin\ntrl:x:10001:10001:TRL:/state:/sbin/nologin\n"

// makeImages makes an image of the daemon and one of the runner, for both architectures. Neither has
// a shell or any other program: sessions of the daemon live in other containers, pods and machines.
func (r *release) makeImages() error {
	for _, i := range []image{
		{
			name:   "trl",
			config: v1.Config{User: "10001:10001", Entrypoint: []string{"/usr/bin/trl"}, Env: []string{"PATH=/usr/bin", "HOME=/state"}},
			files: func(p programs) ([]file, error) {
				program, err := os.ReadFile(p.trl)
				return []file{
					{"etc/passwd", []byte(passwd), 0o644},
					{"state", nil, os.ModeDir | os.ModeSticky | 0o777},
					{"tmp", nil, os.ModeDir | os.ModeSticky | 0o777},
					{"usr/bin/trl", program, 0o755},
				}, err
			},
		},
		{
			name: "trl-runner", config: v1.Config{Entrypoint: []string{"/trl-runner"}},
			files: func(p programs) ([]file, error) {
				program, err := os.ReadFile(p.runner)
				return []file{{"trl-runner", program, 0o755}}, err
			},
		},
	} {
		if err := r.image(i); err != nil {
			return fmt.Errorf("image %s: %w", i.name, err)
		}
	}
	return nil
}

// image writes an OCI layout in a tar file, with an index of the architectures. Docker with the image
// store of containerd reads that index and its name; without, it reads manifest.json, which has a tag
// for each architecture.
func (r *release) image(i image) error {
	tag := "ghcr.io/trl-dev/" + i.name + ":" + tagOf(r.version)
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var loadable tarball.Manifest
	for _, p := range r.built() {
		if p.os != "linux" {
			continue
		}
		one, err := r.imageFor(i, p)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: one, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
		manifest, err := one.Manifest()
		if err != nil {
			return err
		}
		loadable = append(loadable, tarball.Descriptor{
			Config: "blobs/sha256/" + manifest.Config.Digest.Hex, RepoTags: []string{tag + "-" + p.arch},
			Layers: []string{"blobs/sha256/" + manifest.Layers[0].Digest.Hex},
		})
	}
	dir := filepath.Join(r.work, "image-"+i.name)
	blobs, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := blobs.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tagOf(r.version), "io.containerd.image.name": tag,
	})); err != nil {
		return err
	}
	list, err := json.Marshal(loadable)
	if err != nil {
		return err
	}
	files := []file{{"manifest.json", list, 0o644}}
	for _, pattern := range []string{"*", "blobs/*/*"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err != nil || info.IsDir() {
				continue
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			files = append(files, file{filepath.ToSlash(name), data, 0o644})
		}
	}
	sortFiles(files)
	packed, err := r.tarball(files)
	if err != nil {
		return err
	}
	return r.write(i.name+"_"+r.version+"_oci.tar", packed, 0o644)
}

// imageFor makes the image for one platform, with one layer.
func (r *release) imageFor(i image, p platform) (v1.Image, error) {
	content, err := i.files(r.programs[p])
	if err != nil {
		return nil, err
	}
	plain, err := r.tarball(content)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(plain)), nil },
		tarball.WithCompressionLevel(level), tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: r.time}
	config := i.config
	config.WorkingDir = "/"
	config.Labels = map[string]string{
		"org.opencontainers.image.source": "https://github.com/trl-dev/trl", "org.opencontainers.image.version": r.version,
		"org.opencontainers.image.licenses": "MIT",
	}
	one, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		Created: created, OS: p.os, Architecture: p.arch, Config: config, RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	one, err = mutate.Append(one, mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "make release"}})
	return mutate.ConfigMediaType(mutate.MediaType(one, types.OCIManifestSchema1), types.OCIConfigJSON), err
}
