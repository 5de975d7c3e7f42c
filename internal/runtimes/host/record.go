package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
)

// record is what a later daemon needs to find a runner again, or what it left. It
// holds no variable and no command.
type record struct {
	SessionID string `json:"session_id"`
	Dir       string `json:"dir"`
	// RunnerPID and RunnerStart name the process; 0 before it is started.
	RunnerPID   int       `json:"runner_pid"`
	RunnerStart uint64    `json:"runner_start"`
	BootID      string    `json:"boot_id"`
	Cgroup      string    `json:"cgroup,omitempty"`
	CreatedAt   time.Time `json:"created_at"`
	Protocol    int       `json:"protocol"`
	// Name, Kind and Tags describe the session while its runner does not answer.
	Name string          `json:"name,omitempty"`
	Kind api.SessionKind `json:"kind,omitempty"`
	Tags []string        `json:"tags,omitempty"`
	// Key is shown to the runner by its daemons; empty for one of an earlier version.
	Key string `json:"key,omitempty"`
}

func (rt *Runtime) recordDir() string { return filepath.Join(rt.stateDir, "sessions") }

func (rt *Runtime) recordPath(id string) string { return filepath.Join(rt.recordDir(), id+".json") }

func (rt *Runtime) writeRecord(r record) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(rt.recordPath(r.SessionID), bytes.NewReader(append(text, '\n')), 0o600)
}

// replaceFile replaces a file so that whoever reads it sees all of it or the old one.
func replaceFile(path string, content io.Reader, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if chmodErr := f.Chmod(mode); err == nil {
		err = chmodErr
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// sessionID is what an id looks like. Ids become paths, so those of files are checked.
var sessionID = regexp.MustCompile(`^s-[0-9a-f]{10}$`)

// readRecords reads all records. One that cannot be understood is put aside.
func (rt *Runtime) readRecords() ([]record, error) {
	entries, err := os.ReadDir(rt.recordDir())
	if err != nil {
		return nil, err
	}
	var list []record
	for _, e := range entries {
		path := filepath.Join(rt.recordDir(), e.Name())
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			if strings.HasPrefix(e.Name(), ".") { // of a write that did not come to its end
				os.Remove(path)
			}
			continue
		}
		r, err := readRecord(path)
		if err == nil && (r.SessionID != id || !sessionID.MatchString(id) || filepath.Base(r.Dir) != id) {
			err = errors.New("is not that of session " + id)
		}
		if err != nil {
			rt.log.Error("session record cannot be used; moved it aside", "path", path, "error", err)
			_ = os.Rename(path, path+".bad")
			continue
		}
		list = append(list, r)
	}
	return list, nil
}

func readRecord(path string) (r record, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}

// removeFiles removes everything of a session that is a file, the record last: if
// that is interrupted, the next daemon does it again.
func (r *runner) removeFiles() {
	r.mu.Lock()
	r.removed = true
	r.mu.Unlock()
	if err := os.RemoveAll(r.rec.Dir); err != nil {
		r.rt.log.Warn("session directory cannot be removed", "session_id", r.rec.SessionID, "error", err)
	}
	if err := os.Remove(r.rt.recordPath(r.rec.SessionID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.rt.log.Warn("session record cannot be removed", "session_id", r.rec.SessionID, "error", err)
	}
}
