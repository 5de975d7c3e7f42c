package hook

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Bounds of the length of a key in bytes, from the Standard Webhooks specification, and the word before
// a key.
const (
	minKey    = 24
	maxKey    = 64
	keyPrefix = "whsec_"
)

// LoadKey reads the key from a file, which other users must not be able to read. If there is no
// file, LoadKey makes one with a new key.
func LoadKey(path string) ([]byte, error) {
	text, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(path); err == nil {
			text, err = readKey(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	encoded, ok := strings.CutPrefix(strings.TrimSpace(string(text)), keyPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < minKey || len(key) > maxKey {
		return nil, fmt.Errorf("key file %s: must have %s and %d to %d bytes in base64; remove the file, and TRL makes a new one", path, keyPrefix, minKey, maxKey)
	}
	return key, nil
}

// makeKey writes a new key, unless another daemon has done so meanwhile. The file has its whole text
// as soon as it is there.
func makeKey(path string) error {
	random := make([]byte, 32)
	_, _ = rand.Read(random)                              // never fails
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(keyPrefix + base64.StdEncoding.EncodeToString(random) + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func readKey(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: must be a file that others cannot read (mode %04o); chmod 600 it", path, mode.Perm())
	}
	return os.ReadFile(path)
}
