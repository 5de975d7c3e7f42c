package vm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/tests/trltest"
)

// machine is what the virtual machine is made of.
type machine struct{ qemu, kernel, busybox string }

// find looks for the parts; why says which one is missing.
func find() (m machine, why string) {
	if runtime.GOARCH != "amd64" {
		return m, "the kernel is for amd64"
	}
	var err error
	if m.qemu, err = exec.LookPath("qemu-system-x86_64"); err != nil {
		return m, "qemu-system-x86_64 is not here (package qemu-system-x86)"
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return m, err.Error()
	}
	kernels, _ := filepath.Glob(filepath.Join(cache, "trl-test", "vm-kernel", "vmlinuz-*"))
	if len(kernels) == 0 {
		return m, "the kernel is not here (tests/setup.sh fetches the package linux-image-cloud-amd64)"
	}
	m.kernel = kernels[0]
	m.busybox = filepath.Join(cache, "trl-test", "busybox-static", "bin", "busybox")
	if _, err := os.Stat(m.busybox); err != nil {
		return m, "busybox-static is not here (tests/setup.sh fetches it)"
	}
	for _, program := range hostPrograms {
		if _, err := exec.LookPath(program); err != nil {
			return m, program + " is not here"
		}
	}
	return m, ""
}

// hostPrograms are copied from this machine, with their libraries.
var hostPrograms = []string{"bash", "perl"}

// image makes the file system of a machine with trl and busybox, and with what fill adds.
func (m machine) image(t *testing.T, fill func(*archive)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "initrd")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := &archive{w: bufio.NewWriterSize(f, 1<<20), made: map[string]bool{}}
	trl, err := trltest.Static()
	if err != nil {
		t.Fatal(err)
	}
	w.file("bin/trl", trl)
	w.file("bin/trl-runner", filepath.Join(filepath.Dir(trl), "trl-runner"))
	fill(w)
	w.file("bin/busybox", m.busybox)
	applets, err := exec.Command(m.busybox, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	for applet := range strings.Lines(string(applets)) {
		if name := "bin/" + strings.TrimSpace(applet); !w.made[name] {
			w.entry(name, fs.ModeSymlink|0o777, []byte("busybox"))
		}
	}
	w.entry("TRAILER!!!", 0, nil)
	if err := errors.Join(w.err, w.w.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// testPrograms adds the programs that runs names, and those of this machine that they need.
func testPrograms(t *testing.T) func(*archive) {
	return func(w *archive) {
		built := t.TempDir()
		for _, r := range runs {
			if name := r.program(); !w.made["bin/"+name] {
				w.file("bin/"+name, compile(t, built, r.pkg))
			}
		}
		w.file(strings.TrimPrefix(initPath, "/"), compile(t, built, "tests/vm"))
		for _, name := range hostPrograms {
			w.withLibraries(t, "bin/"+name, name)
		}
	}
}

// compile builds the tests of a package for a machine without libraries. It looks at the sources, so
// that the go command runs this test again when they change.
func compile(t *testing.T, dir, pkg string) string {
	t.Helper()
	if files, err := filepath.Glob(filepath.Join("../..", pkg, "*.go")); err != nil || len(files) == 0 {
		t.Fatalf("%s: %v", pkg, err)
	} else {
		for _, f := range files {
			_, _ = os.Stat(f)
		}
	}
	out := filepath.Join(dir, filepath.Base(pkg)+".test")
	c := exec.Command("go", "test", "-c", "-race=false", "-trimpath", "-ldflags=-s -w", "-o", out, "./"+pkg)
	c.Dir, c.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", pkg, err, text)
	}
	return out
}

// archive writes an initramfs: a cpio archive of the format newc.
type archive struct {
	w    *bufio.Writer
	made map[string]bool
	err  error
}

// library is a path in the output of ldd.
var library = regexp.MustCompile(`/\S+\.so\S*`)

// withLibraries adds a program of this machine, with its libraries.
func (a *archive) withLibraries(t *testing.T, name, program string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	a.file(name, path)
	out, _ := exec.Command("ldd", path).Output() // fails for a static program
	for _, lib := range library.FindAllString(string(out), -1) {
		a.file(strings.TrimPrefix(lib, "/"), lib)
	}
}

// file adds a file of this machine.
func (a *archive) file(name, from string) {
	if a.made[name] || a.err != nil {
		return
	}
	text, err := os.ReadFile(from)
	if a.err = err; err == nil {
		a.entry(name, 0o755, text)
	}
}

// entry adds an entry, and the directories above it.
func (a *archive) entry(name string, mode fs.FileMode, text []byte) {
	if dir := filepath.Dir(name); dir != "." && !a.made[dir] {
		a.entry(dir, fs.ModeDir|0o755, nil)
	}
	a.made[name] = true
	kind := map[fs.FileMode]int{0: 0o100000, fs.ModeDir: 0o040000, fs.ModeSymlink: 0o120000}[mode.Type()]
	if mode&fs.ModeSetuid != 0 {
		kind |= 0o4000
	}
	fields := []int{len(a.made), kind | int(mode.Perm()), 0, 0, 1, 0, len(text), 0, 0, 0, 0, len(name) + 1, 0}
	var head strings.Builder
	head.WriteString("070701")
	for _, n := range fields {
		fmt.Fprintf(&head, "%08X", n)
	}
	a.put(head.String()+name+"\x00", nil)
	a.put("", text)
}

// put writes a part, filled up to a multiple of four bytes.
func (a *archive) put(head string, text []byte) {
	_, err := io.WriteString(a.w, head)
	if err == nil {
		_, err = a.w.Write(text)
	}
	if odd := (len(head) + len(text)) % 4; err == nil && odd > 0 {
		_, err = a.w.Write(slices.Repeat([]byte{0}, 4-odd))
	}
	a.err = errors.Join(a.err, err)
}
