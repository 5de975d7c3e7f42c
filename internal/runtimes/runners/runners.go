// Package runners has the programs that own sessions, one for each platform on which sessions can
// live. A release and `make build EMBED=all` embed all of them, `make build` those that this machine
// and its containers need. Any other build has at most the runner of its own platform: the program
// trl-runner beside it, or itself.
package runners

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
)

// Name is the name of the program, and argv[0] of every runner. A program that was called by a name
// that begins with it is a runner; see runner.Called.
const Name = "trl-runner"

// KubeName is the name of the program that speaks with Kubernetes for the daemon.
const KubeName = "trl-kube"

// complete names the builds that embed every program, for errors.
const complete = "the trl of a release and of `make build EMBED=all`"

// Program is the runner for one platform.
type Program struct {
	OS, Arch string // as GOOS and GOARCH
	SHA256   string // of the content, in hexadecimal digits
	Size     int64  // of the content, in bytes

	path string // empty if the program is embedded
}

// FileName is the name of the program's file in a place. It depends on the content alone.
func (p Program) FileName() string { return Name + "-" + p.SHA256[:32] }

// Open returns the content.
func (p Program) Open() (io.ReadCloser, error) {
	if p.path != "" {
		return os.Open(p.path)
	}
	return openPacked(p.OS, p.Arch)
}

func openPacked(goos, goarch string) (io.ReadCloser, error) {
	packed := embedded(goos, goarch)
	if packed == nil {
		return nil, missing(goos, goarch)
	}
	return gzip.NewReader(packed)
}

var found struct {
	sync.Mutex
	programs map[string]Program // by platform; reading a program takes longer than a session
}

// Find returns the runner for a platform.
func Find(goos, goarch string) (Program, error) {
	found.Lock()
	defer found.Unlock()
	key := goos + "/" + goarch
	if p, ok := found.programs[key]; ok {
		return p, nil
	}
	p := Program{OS: goos, Arch: goarch}
	if embedded(goos, goarch) == nil {
		var err error
		if p.path, err = ownRunner(goos, goarch); err != nil {
			return Program{}, err
		}
	}
	content, err := p.Open()
	if err != nil {
		return Program{}, err
	}
	defer content.Close()
	sum := sha256.New()
	if p.Size, err = io.Copy(sum, content); err != nil {
		return Program{}, err
	}
	p.SHA256 = hex.EncodeToString(sum.Sum(nil))
	if found.programs == nil {
		found.programs = map[string]Program{}
	}
	found.programs[key] = p
	return p, nil
}

// ownRunner returns the runner that a build without embedded ones has for its own platform.
func ownRunner(goos, goarch string) (string, error) {
	if goos != runtime.GOOS || goarch != runtime.GOARCH {
		return "", missing(goos, goarch)
	}
	self, err := Self()
	if err != nil {
		return "", err
	}
	if beside := Beside(self); beside != "" {
		return beside, nil
	}
	return self, nil
}

// Beside returns the program trl-runner in the directory of a program; "" if there is none.
func Beside(program string) string { return beside(program, Name) }

// beside returns the program with that name in the directory of another; "" if there is none.
func beside(program, name string) string {
	path := filepath.Join(filepath.Dir(program), name)
	if unix.Access(path, unix.X_OK) != nil {
		return ""
	}
	return path
}

func missing(goos, goarch string) error {
	has := "it has none"
	if list := platforms(); len(list) > 0 {
		has = "it has " + strings.Join(list, ", ")
	}
	return api.Errorf(api.CodeRuntimeUnavailable, "this trl has no runner for %s/%s: %s; %s has linux and darwin, amd64 and arm64", goos, goarch, has, complete)
}

// Self returns a path of the program that runs, even if its file was replaced since it was started:
// a daemon and its runners have the same version.
func Self() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	const exe = "/proc/self/exe"
	running, err := os.Stat(exe)
	if err != nil {
		return path, nil // not on this system
	}
	if there, err := os.Stat(path); err == nil && os.SameFile(running, there) {
		return path, nil
	}
	return exe, nil
}
