package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// image is what an image of TRL contains and starts.
type image struct {
	name       string
	files      func(programs) ([]file, error)
	user       string
	entrypoint []string
	env        []string
}

// The user of the daemon's image, as in dist/kubernetes/daemon.yaml.
const passwd = "root:x:0:0:root:/:/sbin/nologin\ntrl:x:10001:10001:TRL:/state:/sbin/nologin\n"

// images makes an image of the daemon and one of the runner, for both architectures. Neither has
// a shell or any other program: sessions of the daemon live in other containers, pods and machines.
func (r *release) images() error {
	for _, i := range []image{
		{
			name: "trl", user: "10001:10001", entrypoint: []string{"/usr/bin/trl"}, env: []string{"PATH=/usr/bin", "HOME=/state"},
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
			name: "trl-runner", entrypoint: []string{"/trl-runner"},
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

// descriptor names a blob, as the OCI image specification says.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

const oci = "application/vnd.oci.image."

// image writes an OCI layout in a tar file, with an index of the architectures. `docker load` reads
// its manifest.json, which has a tag for each architecture.
func (r *release) image(i image) error {
	var files []file
	blob := func(mediaType string, data []byte) descriptor {
		sum := fmt.Sprintf("%x", sha256.Sum256(data))
		files = append(files, file{"blobs/sha256/" + sum, data, 0o644})
		return descriptor{MediaType: oci + mediaType, Digest: "sha256:" + sum, Size: len(data)}
	}
	object := func(mediaType string, value map[string]any) (descriptor, error) {
		data, err := json.Marshal(value)
		return blob(mediaType, data), err
	}
	tag := "ghcr.io/trl-dev/" + i.name + ":" + tagOf(r.version)
	var manifests []descriptor
	var loadable []map[string]any
	for _, p := range r.built() {
		if p.os != "linux" {
			continue
		}
		content, err := i.files(r.programs[p])
		if err != nil {
			return err
		}
		plain, err := r.tarball(content)
		if err != nil {
			return err
		}
		packed, err := gzipped(plain)
		if err != nil {
			return err
		}
		layer := blob("layer.v1.tar+gzip", packed)
		created := r.time.Format(time.RFC3339)
		config, err := object("config.v1+json", map[string]any{
			"created": created, "os": p.os, "architecture": p.arch,
			"config": map[string]any{
				"User": i.user, "Entrypoint": i.entrypoint, "Env": i.env, "WorkingDir": "/",
				"Labels": map[string]string{
					"org.opencontainers.image.source": "https://github.com/trl-dev/trl", "org.opencontainers.image.version": r.version,
					"org.opencontainers.image.licenses": "MIT",
				},
			},
			"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(plain))}},
			"history": []map[string]any{{"created": created, "created_by": "make release"}},
		})
		if err != nil {
			return err
		}
		manifest, err := object("manifest.v1+json", map[string]any{
			"schemaVersion": 2, "mediaType": oci + "manifest.v1+json", "config": config, "layers": []descriptor{layer},
		})
		if err != nil {
			return err
		}
		manifest.Platform = map[string]string{"os": p.os, "architecture": p.arch}
		manifests = append(manifests, manifest)
		loadable = append(loadable, map[string]any{
			"Config": "blobs/sha256/" + config.Digest[len("sha256:"):], "RepoTags": []string{tag + "-" + p.arch},
			"Layers": []string{"blobs/sha256/" + layer.Digest[len("sha256:"):]},
		})
	}
	index, err := object("index.v1+json", map[string]any{"schemaVersion": 2, "mediaType": oci + "index.v1+json", "manifests": manifests})
	if err != nil {
		return err
	}
	index.Annotations = map[string]string{"org.opencontainers.image.ref.name": tagOf(r.version)}
	for name, value := range map[string]any{
		"oci-layout":    map[string]string{"imageLayoutVersion": "1.0.0"},
		"index.json":    map[string]any{"schemaVersion": 2, "mediaType": oci + "index.v1+json", "manifests": []descriptor{index}},
		"manifest.json": loadable,
	} {
		data, err := json.Marshal(value)
		if err != nil {
			return err
		}
		files = append(files, file{name, data, 0o644})
	}
	sortFiles(files)
	packed, err := r.tarball(files)
	if err != nil {
		return err
	}
	return r.write(i.name+"_"+r.version+"_oci.tar", packed, 0o644)
}
