package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/trl-dev/trl/api"
)

const (
	// numFiles is how many files share Config.MaxBytes.
	numFiles = 8
	// minFile is the smallest bound of one file.
	minFile = 64 << 10
	suffix  = ".jsonl"
	// hashField begins the last field of a line, hashEnd ends the line.
	hashField = `,"hash":"`
	hashEnd   = `"}`
)

// files are the files of the log: lines of records. The name of a file is the number of its first
// record, so that the order of the names is the order of the records, and no file is ever renamed.
type files struct {
	dir     string
	maxFile int64

	mu   sync.Mutex
	file *os.File // guarded by mu, as the rest; the newest
	size int64    // of the newest
	seq  int64    // of the last record
	hash string   // of the last record
	torn bool     // there may be a part of a line behind size
}

func nameOf(first int64) string { return fmt.Sprintf("%016d%s", first, suffix) }

// list returns the paths of the files, the oldest first.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// open finds the end of the chain and opens the newest file. It removes a line that was not written
// completely, and returns its length.
func (f *files) open(dir string, maxBytes int64) (cut int64, err error) {
	f.dir, f.maxFile = dir, max(maxBytes/numFiles, minFile)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	paths, err := list(dir)
	if err != nil {
		return 0, err
	}
	for len(paths) > 0 {
		newest := paths[len(paths)-1]
		text, err := os.ReadFile(newest)
		if err != nil {
			return cut, err
		}
		whole := bytes.LastIndexByte(text, '\n') + 1
		cut += int64(len(text) - whole)
		if whole == 0 { // the daemon was killed after it made the file
			if err := os.Remove(newest); err != nil {
				return cut, err
			}
			paths = paths[:len(paths)-1]
			continue
		}
		f.seq, f.hash = endOf(filepath.Base(newest), text[:whole])
		if f.file, err = os.OpenFile(newest, os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
			return cut, err
		}
		f.size = int64(whole)
		return cut, errors.Join(f.file.Chmod(0o600), f.file.Truncate(f.size))
	}
	return cut, nil
}

// endOf returns number and hash of the last record of a file. If its last line is invalid, the
// chain continues after it, and verify finds the line.
func endOf(name string, text []byte) (int64, string) {
	var first int64
	_, _ = fmt.Sscanf(name, "%d", &first)
	last := text[bytes.LastIndexByte(text[:len(text)-1], '\n')+1 : len(text)-1]
	var r api.AuditRecord
	if json.Unmarshal(last, &r) == nil && r.Seq >= first && r.Hash != "" {
		return r.Seq, r.Hash
	}
	return first + int64(bytes.Count(text, []byte("\n"))) - 1, "broken"
}

// append writes records and gives them their numbers and hashes. Either all are written or none.
func (f *files) append(batch []api.AuditRecord) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	seq, hash := f.seq, f.hash
	var text []byte
	for i := range batch {
		r := &batch[i]
		seq++
		r.Seq, r.Prev, r.Hash = seq, hash, ""
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		hash = digest(line)
		r.Hash = hash
		text = append(append(append(append(append(text, line[:len(line)-1]...), hashField...), hash...), hashEnd...), '\n')
	}
	if f.torn { // the chain must not continue behind it, nor in the next file
		if err := f.file.Truncate(f.size); err != nil {
			return err
		}
		f.torn = false
	}
	if f.file == nil || f.size > 0 && f.size+int64(len(text)) > f.maxFile {
		if err := f.rotate(); err != nil {
			return err
		}
	}
	if _, err := f.file.Write(text); err != nil {
		f.torn = f.file.Truncate(f.size) != nil
		return err
	}
	f.size += int64(len(text))
	f.seq, f.hash = seq, hash
	return nil
}

func digest(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// rotate begins a new file, and removes the oldest ones.
func (f *files) rotate() error {
	next, err := os.OpenFile(filepath.Join(f.dir, nameOf(f.seq+1)), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if f.file != nil {
		_ = f.file.Close()
	}
	f.file, f.size = next, 0
	paths, err := list(f.dir)
	if err != nil {
		return err
	}
	for len(paths) > numFiles {
		if err := os.Remove(paths[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		paths = paths[1:]
	}
	return nil
}

func (f *files) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// part is a file as it was at one moment. Later records and the removal of the file do not change it.
type part struct {
	*io.SectionReader
	file *os.File
}

// snapshot opens the files as they are now, the oldest first, and returns the end of the chain.
func (f *files) snapshot() (parts []part, seq int64, hash string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	parts, err = openAll(f.dir)
	if n := len(parts); err == nil && n > 0 && f.file != nil {
		parts[n-1].SectionReader = io.NewSectionReader(parts[n-1].file, 0, f.size)
	}
	return parts, f.seq, f.hash, err
}

func openAll(dir string) (parts []part, err error) {
	paths, err := list(dir)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			closeAll(parts)
			return nil, err
		}
		info, err := file.Stat()
		if err != nil {
			file.Close()
			closeAll(parts)
			return nil, err
		}
		parts = append(parts, part{io.NewSectionReader(file, 0, info.Size()), file})
	}
	return parts, nil
}

func closeAll(parts []part) {
	for _, p := range parts {
		p.file.Close()
	}
}
