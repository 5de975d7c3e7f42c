package state_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/place"
	"github.com/trl-dev/trl/internal/state"
)

func config(path string) state.Config {
	return state.Config{Path: path, Logger: slog.New(slog.DiscardHandler)}
}

func open(t *testing.T, path string) *state.Dir {
	t.Helper()
	d, err := state.Open(config(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	open(t, path)
	if _, err := state.Open(config(path)); !errors.Is(err, place.ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

func TestDirectoryThatOthersMayWriteToIsRefused(t *testing.T) {
	path := t.TempDir()
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := state.Open(config(path))
	if err == nil || !strings.Contains(err.Error(), "state_dir: ") || !strings.Contains(err.Error(), "others may write to it (mode 0777)") {
		t.Errorf("got %v", err)
	}
}

// ship is the record of a runtime that does not exist.
type ship struct {
	state.Record
	Port string `json:"port"`
}

func anyShip(ship) error { return nil }

func TestRecordsAreThoseOfTheRuntime(t *testing.T) {
	d := open(t, t.TempDir())
	in := ship{state.Record{SessionID: "s-0000000001", Runtime: "ship", Name: "build", Kind: api.KindShell,
		CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Protocol: 9, Key: "secret", Tags: []string{"a"}}, "Kiel"}
	if err := d.WriteRecord(in.SessionID, in); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteRecord("s-0000000002", state.Record{SessionID: "s-0000000002", Runtime: "host"}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(d.Path(), "sessions", in.SessionID+".json")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	list, err := state.Records(d, "ship", anyShip)
	if err != nil || len(list) != 1 || list[0].Port != "Kiel" || list[0].Name != "build" || list[0].Key != "secret" ||
		!list[0].CreatedAt.Equal(in.CreatedAt) || !slices.Equal(list[0].Tags, in.Tags) {
		t.Errorf("%+v, %v", list, err)
	}
	for range 2 {
		if err := d.RemoveRecord(in.SessionID); err != nil {
			t.Error(err)
		}
	}
	if list, err := state.Records(d, "ship", anyShip); err != nil || len(list) != 0 {
		t.Errorf("after the removal: %+v, %v", list, err)
	}
	if list, err := state.Records(d, "host", func(state.Record) error { return nil }); err != nil || len(list) != 1 {
		t.Errorf("of the other runtime: %+v, %v", list, err)
	}
}

// TestRecordOfAnEarlierVersion has a record as the versions before the field runtime wrote it.
func TestRecordOfAnEarlierVersion(t *testing.T) {
	d := open(t, t.TempDir())
	text := `{
  "session_id": "s-0123456789",
  "dir": "/run/user/1000/trl/s-0123456789",
  "runner_pid": 4711,
  "runner_start": 815,
  "boot_id": "b",
  "created_at": "2026-01-02T03:04:05Z",
  "protocol": 9,
  "name": "build",
  "kind": "terminal",
  "tags": ["a"],
  "key": "secret"
}
`
	if err := os.WriteFile(filepath.Join(d.Path(), "sessions", "s-0123456789.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	type record struct {
		state.Record
		Dir       string `json:"dir"`
		RunnerPID int    `json:"runner_pid"`
	}
	list, err := state.Records(d, "host", func(record) error { return nil })
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if r := list[0]; r.RunnerPID != 4711 || r.Dir == "" || r.Name != "build" || r.Kind != api.KindTerminal || r.Key != "secret" || r.Protocol != 9 {
		t.Errorf("%+v", r)
	}
}

func TestInvalidRecordsAreMovedAside(t *testing.T) {
	d := open(t, t.TempDir())
	dir := filepath.Join(d.Path(), "sessions")
	for name, text := range map[string]string{
		"s-0000000001.json": `{"session_id":"s-0000000001","runtime":"ship","port":"Kiel"}`,
		"s-0000000002.json": `{"session_id":"s-0000000001","runtime":"ship"}`,
		"s-0000000003.json": `{"session_id":`,
		"s-0000000004.json": `{"session_id":"s-0000000004","runtime":"ship","port":"nowhere"}`,
		"other.json":        `{"session_id":"other","runtime":"ship"}`,
		".s-1.json.123":     `{`, // of a write that was interrupted
		"readme":            "left alone",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := state.Records(d, "ship", func(s ship) error {
		if s.Port == "nowhere" {
			return errors.New("no such port")
		}
		return nil
	})
	if err != nil || len(list) != 1 || list[0].SessionID != "s-0000000001" {
		t.Errorf("%+v, %v", list, err)
	}
	var left []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{"other.json.bad", "readme", "s-0000000001.json", "s-0000000002.json.bad", "s-0000000003.json.bad", "s-0000000004.json.bad"}
	if !slices.Equal(left, want) {
		t.Errorf("files: %v, want %v", left, want)
	}
}

func TestID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	open := func() *state.Dir {
		t.Helper()
		d, err := state.Open(state.Config{Path: path, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := open()
	id, err := d.ID()
	if err != nil || len(id) != 27 {
		t.Errorf("id %q, %v", id, err)
	}
	d.Close()
	d = open()
	defer d.Close()
	if again, err := d.ID(); err != nil || again != id {
		t.Errorf("the next daemon has the id %q, not %q: %v", again, id, err)
	}
	if err := os.WriteFile(filepath.Join(path, "id"), []byte("../../etc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if other, err := d.ID(); err != nil || other == id || strings.Contains(other, "/") {
		t.Errorf("for a damaged file: %q, %v", other, err)
	}
}
