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

	"github.com/trl-dev/trl/internal/state"
)

// program is how a runner is started.
type program struct {
	path string
	args []string
}

// runnerName is the name of the small program, and argv[0] of every runner.
const runnerName = "trl-runner"

// SelfArgument is the first argument of this program when it is started as a runner, because there
// is no other.
const SelfArgument = "__runner"

// findProgram finds the program of the runner: the one that was named, the one embedded in this
// program, the one beside it, or this program itself.
func findProgram(named, stateDir string, log *slog.Logger) (program, error) {
	if named != "" {
		return program{named, []string{runnerName, SelfArgument}}, nil
	}
	if packed := embedded(runtime.GOOS, runtime.GOARCH); packed != nil {
		path, err := unpack(packed, filepath.Join(stateDir, "runners"))
		if err == nil {
			err = unix.Access(path, unix.X_OK) // fails where no programs may be started, as with noexec
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

// executable returns a path of the program that runs, even if its file was replaced since it was
// started: a daemon and its runners have the same version.
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

// unpack writes a compressed program into dir, unless it is there, and returns its path. It
// removes the programs of other versions: only this daemon starts programs from dir, and running
// ones do not need their files. It never has the whole program in memory, because the daemon
// would keep that memory.
func unpack(packed io.ReadSeeker, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// A gzip stream ends with the checksum and length of its content (RFC 1952). They are the name
	// of the file.
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
		if err := state.ReplaceFile(path, unzip, 0o700); err != nil {
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
