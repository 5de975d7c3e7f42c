package runners

import (
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/state"
)

// Unpack writes the embedded runner of this machine into dir, unless it is there, and returns its
// path; "" if none is embedded. It removes the programs of other versions: only this daemon starts
// programs from dir, and running ones do not need their files. It never has the whole program in
// memory, because the daemon would keep that memory.
func Unpack(dir string) (string, error) {
	packed := embedded(runtime.GOOS, runtime.GOARCH)
	if packed == nil {
		return "", nil
	}
	return unpack(Name, packed, dir)
}

// UnpackKube does the same for the program that speaks with Kubernetes. Without an embedded one it
// returns the one beside this program.
func UnpackKube(dir string) (string, error) {
	if packed := embeddedKube(); packed != nil {
		return unpack(KubeName, packed, dir)
	}
	self, err := Self()
	if err != nil {
		return "", err
	}
	if path := beside(self, KubeName); path != "" {
		return path, nil
	}
	return "", api.Errorf(api.CodeRuntimeUnavailable, "this trl cannot reach Kubernetes: it has no %s; %s has it", KubeName, complete)
}

func unpack(program string, packed io.ReadSeeker, dir string) (string, error) {
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
	name := fmt.Sprintf("%s-%08x-%x", program, sum, size)
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
		if e.Name() != name && strings.HasPrefix(strings.TrimPrefix(e.Name(), "."), program+"-") {
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
