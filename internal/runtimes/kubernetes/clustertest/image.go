//go:build linux

package clustertest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// file is a file of an image: a program, a link or a directory.
type file struct {
	name    string
	content []byte
	link    string
	mode    int64
	dir     bool
}

// importImages makes the images of the node and hands them to containerd.
func (c *Cluster) importImages() error {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	busybox, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	list, err := exec.Command(path, "--list").Output()
	if err != nil {
		return err
	}
	root := []file{
		{name: "bin/", dir: true, mode: 0o755}, {name: "etc/", dir: true, mode: 0o755}, {name: "tmp/", dir: true, mode: 0o1777}, {name: "usr/", dir: true, mode: 0o755},
		{name: "bin/busybox", content: busybox, mode: 0o755},
		{name: "etc/passwd", content: []byte("root:x:0:0:root:/:/bin/sh\n"), mode: 0o644},
	}
	if libraries, err := librariesOf(path); err != nil {
		return err
	} else {
		root = append(root, libraries...)
	}
	for applet := range strings.FieldsSeq(string(list)) {
		if applet != "busybox" {
			root = append(root, file{name: "bin/" + applet, link: "busybox", mode: 0o777})
		}
	}
	for _, image := range []struct {
		name  string
		files []file
		cmd   []string
	}{
		{Busybox, root, []string{"/bin/sh"}},
		{debian, root, []string{"bash"}}, // another command, so that it is another image
		{pause, root, []string{"/bin/sleep", "2147483647"}},
		{Scratch, []file{{name: "README", content: []byte("empty\n"), mode: 0o644}}, []string{"/none"}},
	} {
		archive, err := pack(image.name, image.files, image.cmd)
		if err != nil {
			return err
		}
		cmd := exec.Command("ctr", "-a", c.path("containerd.sock"), "-n", "k8s.io", "images", "import", "-")
		cmd.Stdin = bytes.NewReader(archive)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("image %s: %w: %s", image.name, err, out)
		}
	}
	return nil
}

// librariesOf returns the shared libraries of a program; none of a static one.
func librariesOf(program string) ([]file, error) {
	out, err := exec.Command("ldd", program).Output()
	if err != nil {
		return nil, nil // it is static
	}
	var files []file
	for word := range strings.FieldsSeq(string(out)) {
		if !strings.HasPrefix(word, "/") {
			continue
		}
		content, err := os.ReadFile(word)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: strings.TrimPrefix(word, "/"), content: content, mode: 0o755})
	}
	return files, nil
}

// pack makes an image in the format of docker save.
func pack(name string, files []file, cmd []string) ([]byte, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Typeflag: tar.TypeReg}
		switch {
		case f.dir:
			header.Typeflag = tar.TypeDir
		case f.link != "":
			header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Cmd": cmd, "Env": []string{"PATH=/bin:/usr/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + sum(layer.Bytes())}},
	})
	if err != nil {
		return nil, err
	}
	configName := sum(config) + ".json"
	manifest, err := json.Marshal([]any{map[string]any{"Config": configName, "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return nil, err
	}
	var image bytes.Buffer
	w = tar.NewWriter(&image)
	for _, part := range []file{{name: "manifest.json", content: manifest}, {name: configName, content: config}, {name: "layer.tar", content: layer.Bytes()}} {
		if err := w.WriteHeader(&tar.Header{Name: part.name, Mode: 0o644, Size: int64(len(part.content)), Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := w.Write(part.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return image.Bytes(), nil
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}
