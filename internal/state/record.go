package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
)

// Record is the part of a session's record that is the same for every runtime. A runtime embeds
// it in a type of its own, with what it needs to find the runner. A record contains neither
// variables nor commands.
type Record struct {
	SessionID string `json:"session_id"`
	// Runtime is the runtime that wrote the record. The records of earlier versions do not say
	// it: they are those of the runtime "host".
	Runtime string `json:"runtime,omitempty"`
	// Word is the place as the session's creator named it; empty in the records of earlier versions.
	Word      string    `json:"word,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	// Protocol is the one that the runner speaks.
	Protocol int `json:"protocol"`
	// Name, Kind and Tags describe the session while its runner does not answer.
	Name string          `json:"name,omitempty"`
	Kind api.SessionKind `json:"kind,omitempty"`
	Tags []string        `json:"tags,omitempty"`
	// Key proves to the runner that a connection comes from a daemon; empty for a runner of an
	// earlier version.
	Key string `json:"key,omitempty"`
	// Guest says whose the session is, if it belongs to another daemon.
	Guest *api.GuestOwner `json:"guest,omitempty"`
}

// firstRuntime is the runtime of records that do not name one.
const firstRuntime = "host"

func (d *Dir) recordDir() string { return filepath.Join(d.path, "sessions") }

func (d *Dir) recordPath(id string) string { return filepath.Join(d.recordDir(), id+".json") }

// WriteRecord writes the record of a session: a struct that embeds Record.
func (d *Dir) WriteRecord(id string, record any) error {
	text, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	return ReplaceFile(d.recordPath(id), bytes.NewReader(append(text, '\n')), 0o600)
}

// RemoveRecord removes the record of a session, if there is one.
func (d *Dir) RemoveRecord(id string) error {
	if err := os.Remove(d.recordPath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sessionID is the form of an id. Ids become paths, so those in files are checked.
var sessionID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^s-[0-9a-f]{10}$`) })

// Records reads the records of the sessions of a runtime into values of type T, which embeds
// Record. A record that is invalid, or that check refuses, is moved aside.
func Records[T any](d *Dir, runtime string, check func(T) error) ([]T, error) {
	entries, err := os.ReadDir(d.recordDir())
	if err != nil {
		return nil, fmt.Errorf("state_dir: %w", err)
	}
	var list []T
	for _, e := range entries {
		path := filepath.Join(d.recordDir(), e.Name())
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			if strings.HasPrefix(e.Name(), ".") { // ReplaceFile was interrupted
				os.Remove(path)
			}
			continue
		}
		var record T
		header, err := readRecord(path, &record)
		if err == nil && header.Runtime != runtime {
			continue
		}
		if err == nil && (header.SessionID != id || !sessionID().MatchString(id)) {
			err = errors.New("is not that of session " + id)
		}
		if err == nil {
			err = check(record)
		}
		if err != nil {
			d.log.Error("session record cannot be used; moved it aside", "path", path, "error", err)
			_ = os.Rename(path, path+".bad")
			continue
		}
		list = append(list, record)
	}
	return list, nil
}

// readRecord reads a file into the record of a runtime, and returns the common part of it.
func readRecord(path string, record any) (header Record, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return header, err
	}
	if err = json.Unmarshal(text, &header); err == nil {
		err = json.Unmarshal(text, record)
	}
	if header.Runtime == "" {
		header.Runtime = firstRuntime
	}
	return header, err
}
