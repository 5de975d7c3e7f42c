package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// build makes the programs of all platforms. Each trl has the runners of all platforms inside, and
// the program for Kubernetes of its own.
func (r *release) build() error {
	r.programs = map[platform]programs{}
	root, err := filepath.Abs(r.root)
	if err != nil {
		return err
	}
	embedded := filepath.Join(root, "internal", "runtimes", "runners")
	runners := map[string]string{} // what the compiler reads instead of the files of the tree
	stale, err := filepath.Glob(filepath.Join(embedded, "*.gz"))
	if err != nil {
		return err
	}
	for _, path := range stale {
		runners[path] = ""
	}
	for _, p := range platforms {
		path, err := r.compile(root, p, "trl-runner")
		if err != nil {
			return err
		}
		packed, err := compress(path)
		if err != nil {
			return err
		}
		runners[filepath.Join(embedded, filepath.Base(packed))] = packed
		r.programs[p] = programs{runner: path}
	}
	for _, p := range platforms {
		kube, err := r.compile(root, p, "trl-kube")
		if err != nil {
			return err
		}
		packed, err := compress(kube)
		if err != nil {
			return err
		}
		replace := map[string]string{filepath.Join(embedded, filepath.Base(packed)): packed}
		for from, to := range runners {
			if _, own := replace[from]; !own {
				replace[from] = to
			}
		}
		overlay, err := json.Marshal(map[string]any{"Replace": replace})
		if err != nil {
			return err
		}
		list := filepath.Join(r.work, "overlay-"+p.String()+".json")
		if err := os.WriteFile(list, overlay, 0o600); err != nil {
			return err
		}
		trl, err := r.compile(root, p, "trl", "-overlay", list, "-tags", "embed_runners,grpcnotrace")
		if err != nil {
			return err
		}
		r.programs[p] = programs{trl: trl, runner: r.programs[p].runner, kube: kube}
	}
	return nil
}

// compile builds a program for a platform and returns its path.
func (r *release) compile(root string, p platform, name string, more ...string) (string, error) {
	path := filepath.Join(r.work, name+"-"+p.String())
	fmt.Fprintf(os.Stderr, "release: %s\n", filepath.Base(path))
	args := append([]string{"build", "-buildvcs=false", "-trimpath", "-gcflags=all=-dwarf=false", "-o", path,
		"-ldflags", "-s -w -buildid= -X github.com/trl-dev/trl/internal/version.Version=" + r.version}, more...)
	cmd := exec.Command("go", append(args, "./cmd/"+name)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", filepath.Base(path), err, out)
	}
	return path, nil
}

// compress writes a compressed copy of a file beside it and returns its path.
func compress(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	packed, err := gzipped(data)
	if err != nil {
		return "", err
	}
	return path + ".gz", os.WriteFile(path+".gz", packed, 0o600)
}

// level is how hard to compress; tests have less time.
var level = gzip.BestCompression

// gzipped compresses data, without a name and a time.
func gzipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
