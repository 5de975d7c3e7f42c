package host

import (
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// program is how a runner is started.
type program struct {
	path string
	args []string
}

// runnerName is the name of the small program, and argv[0] of whatever plays its part.
const runnerName = "trl-runner"

// SelfArgument is the first argument with which a program that has no runner beside
// it is started again, to be the runner itself.
const SelfArgument = "__runner"

// findProgram finds the runner: the one that was named, that inside of this program,
// that beside it, or this program itself.
func findProgram(named, stateDir string, log *slog.Logger) (program, error) {
	if named != "" {
		return program{named, []string{runnerName, SelfArgument}}, nil
	}
	if packed := embedded(runtime.GOOS, runtime.GOARCH); packed != nil {
		path, err := unpack(packed, filepath.Join(stateDir, "runners"))
		if err == nil {
			err = unix.Access(path, unix.X_OK) // fails where programs may not be started from
		}
		if err == nil {
			return program{path, []string{runnerName}}, nil
		}
		log.Warn("runner cannot be unpacked; using this program instead", "error", err)
	}
	self, err := executable()
	if err != nil {
		return program{}, fmt.Errorf("runner: %w", err)
	}
	if beside := filepath.Join(filepath.Dir(self), runnerName); unix.Access(beside, unix.X_OK) == nil {
		return program{beside, []string{runnerName}}, nil
	}
	return program{self, []string{runnerName, SelfArgument}}, nil
}

// executable is a path of this very program, also when it was replaced since it
// was started: a daemon and its runners are of one version.
func executable() (string, error) {
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

// unpack writes a compressed program into dir, unless it is there, and returns its
// path. Those of other versions are removed: nothing but this starts them, and those
// that run do not need their file. Neither of its forms is read as a whole into memory,
// which the daemon would keep.
func unpack(packed io.ReadSeeker, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// A gzip stream ends with checksum and length of its content (RFC 1952). They name it.
	var end [8]byte
	if _, err := packed.Seek(-int64(len(end)), io.SeekEnd); err != nil {
		return "", err
	}
	if _, err := io.ReadFull(packed, end[:]); err != nil {
		return "", err
	}
	sum, size := binary.LittleEndian.Uint32(end[:]), binary.LittleEndian.Uint32(end[4:])
	name := fmt.Sprintf("%s-%08x-%x", runnerName, sum, size)
	path := filepath.Join(dir, name)
	if !intact(path, sum, size) {
		if _, err := packed.Seek(0, io.SeekStart); err != nil {
			return "", err
		}
		unzip, err := gzip.NewReader(packed)
		if err != nil {
			return "", err
		}
		if err := replaceFile(path, unzip, 0o700); err != nil {
			return "", err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Name() != name && strings.HasPrefix(strings.TrimPrefix(e.Name(), "."), runnerName+"-") {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	return path, nil
}

// intact reports whether the file has that checksum and length, and can be started.
func intact(path string, want, size uint32) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o700 || uint32(info.Size()) != size {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	sum := crc32.NewIEEE()
	_, err = io.Copy(sum, f)
	return err == nil && sum.Sum32() == want
}
