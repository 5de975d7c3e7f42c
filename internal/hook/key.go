package hook

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
		random := make([]byte, 32)
		_, _ = rand.Read(random) // never fails
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, fmt.Errorf("key file: %w", err)
		}
		_, err = f.WriteString(keyPrefix + base64.StdEncoding.EncodeToString(random) + "\n")
		if err = errors.Join(err, f.Close()); err != nil {
			os.Remove(path)
			return nil, fmt.Errorf("key file: %w", err)
		}
		return random, nil
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
