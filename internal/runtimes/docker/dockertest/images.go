//go:build linux

package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/moby/moby/client"
)

// The images of an engine. All were made from programs of this machine.
const (
	// Busybox has BusyBox with all its applets.
	Busybox = "trl-test/busybox:1"
	// Scratch is empty: neither a shell nor any other file.
	Scratch = "trl-test/scratch:1"
	// Bash has bash, the usual small programs and, if this machine has it, vim. See NeedBash.
	Bash = "trl-test/bash:1"
)

// images imports the images.
func (e *Engine) images() error {
	if err := e.load(Scratch, tree{}); err != nil {
		return err
	}
	box, err := busybox()
	if err != nil {
		return err
	}
	return e.load(Busybox, box, "ENV IN_IMAGE=busybox", "WORKDIR /work", `ENTRYPOINT ["/bin/false"]`)
}

// Import makes one more image, from files by their paths.
func (e *Engine) Import(t testing.TB, name string, files map[string]string, changes ...string) {
	t.Helper()
	tr := tree{}
	for path, content := range files {
		tr[path] = file{mode: 0o755, content: []byte(content)}
	}
	if err := e.load(name, tr, changes...); err != nil {
		t.Fatal(err)
	}
}

// NeedBash makes the image Bash if the engine does not have it.
func (e *Engine) NeedBash(t testing.TB) {
	t.Helper()
	if _, err := e.ImageInspect(t.Context(), Bash); err == nil {
		return
	}
	tr, err := debianLike()
	if err == nil {
		err = e.load(Bash, tr, "ENV PATH=/usr/local/bin:/usr/bin:/bin", `CMD ["/bin/bash"]`)
	}
	if err != nil {
		t.Skipf("SKIPPED: the image with bash cannot be made (%v): bash in containers is not tested", err)
	}
}

// tree is a root file system.
type tree map[string]file

type file struct {
	mode    int64
	content []byte
	link    string // of a symbolic link
	dir     bool
}

// archive is the tree as a tar file.
func (tr tree) archive() ([]byte, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	paths := make([]string, 0, len(tr))
	for p := range tr {
		paths = append(paths, p)
	}
	sort.Strings(paths) // directories before what is in them
	for _, p := range paths {
		f := tr[p]
		h := &tar.Header{Name: p, Mode: f.mode, Size: int64(len(f.content)), Typeflag: tar.TypeReg}
		switch {
		case f.dir:
			h.Typeflag = tar.TypeDir
		case f.link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}

func (e *Engine) load(name string, tr tree, changes ...string) error {
	archive, err := tr.archive()
	if err != nil {
		return err
	}
	r, err := e.ImageImport(context.Background(), client.ImageImportSource{Source: bytes.NewReader(archive), SourceName: "-"}, name, client.ImageImportOptions{Changes: changes})
	if err != nil {
		return fmt.Errorf("image %s: %w", name, err)
	}
	defer r.Close()
	said, err := io.ReadAll(r)
	if err == nil && bytes.Contains(said, []byte(`"error"`)) {
		err = errors.New(string(said))
	}
	return err
}

// busybox is a root file system with a static BusyBox and links for all of its applets.
func busybox() (tree, error) {
	path, err := staticBusybox()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	applets, err := exec.Command(path, "--list").Output()
	if err != nil {
		return nil, err
	}
	tr := tree{"bin": {dir: true, mode: 0o755}, "bin/busybox": {mode: 0o755, content: data}}
	for name := range strings.Lines(string(applets)) {
		if name = strings.TrimSpace(name); name != "busybox" {
			tr["bin/"+name] = file{link: "busybox"}
		}
	}
	tr.common("/bin/sh")
	return tr, nil
}

// staticBusybox finds a BusyBox that needs no libraries.
func staticBusybox() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	for _, path := range []string{filepath.Join(cache, "trl-test/busybox-static/bin/busybox"), "/bin/busybox"} {
		if static(path) {
			return path, nil
		}
	}
	return "", errors.New("no static busybox was found; tests/setup.sh gets it")
}

// static reports whether a program needs no interpreter.
func static(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return false
		}
	}
	return true
}

// common adds what every system has.
func (tr tree) common(shell string) {
	tr["tmp"] = file{dir: true, mode: 0o1777}
	for _, d := range []string{"etc", "usr", "work", "root", "home", "home/user", "var", "run"} {
		tr[d] = file{dir: true, mode: 0o755}
	}
	tr["etc/passwd"] = file{mode: 0o644, content: []byte("root:x:0:0:root:/root:" + shell + "\nuser:x:1000:1000:user:/home/user:" + shell + "\n")}
	tr["etc/group"] = file{mode: 0o644, content: []byte("root:x:0:\nuser:x:1000:\n")}
}

// debianLike is a root file system with programs of this machine and the libraries that they need.
func debianLike() (tree, error) {
	tr := tree{}
	tr.common("/bin/bash")
	for _, d := range []string{"bin", "usr", "usr/bin", "dev", "proc", "sys"} {
		tr[d] = file{dir: true, mode: 0o755}
	}
	if err := tr.program("/bin/bash"); err != nil {
		return nil, err
	}
	for _, name := range strings.Fields("bash sh cat ls cp mv rm mkdir sleep true false env id head tail wc seq yes dd sha256sum md5sum tr sort uname stty tty date touch chmod kill ps grep sed awk setsid nohup mkfifo printf tee vim") {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if err := tr.program(path); err != nil {
			return nil, err
		}
		tr["usr/bin/"+name] = tr[strings.TrimPrefix(real(path), "/")]
		tr["bin/"+name] = tr["usr/bin/"+name]
	}
	for _, entry := range []string{"x/xterm-256color", "x/xterm", "s/screen", "v/vt100", "l/linux"} {
		if data, err := os.ReadFile("/lib/terminfo/" + entry); err == nil {
			tr["lib/terminfo/"+entry] = file{mode: 0o644, content: data}
		}
	}
	return tr, nil
}

func real(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return path
}

// program adds a program and its libraries, at the paths under which the loader looks for them.
func (tr tree) program(path string) error {
	if err := tr.copy(real(path), real(path)); err != nil {
		return err
	}
	if static(real(path)) {
		return nil
	}
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		return nil // a script
	}
	for line := range strings.Lines(string(out)) {
		for _, word := range strings.Fields(line) {
			if strings.HasPrefix(word, "/") {
				if err := tr.copy(word, word); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (tr tree) copy(from, to string) error {
	to = strings.TrimPrefix(to, "/")
	if _, ok := tr[to]; ok {
		return nil
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	tr[to] = file{mode: 0o755, content: data}
	return nil
}
