package remotetest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/runtimes/runners"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/state"
)

// Driver returns the driver of one daemon. A place of the kind docker is made for its session; one
// of the kind ssh is the one machine of the world.
func (w *World) Driver() remote.Driver { return &driver{w} }

type driver struct{ w *World }

func (d *driver) Name() string { return "remotetest" }

func (d *driver) Kinds() []api.PlaceKind { return []api.PlaceKind{api.PlaceDocker, api.PlaceSSH} }

func (d *driver) Check(ctx context.Context, t session.Target) api.RuntimeCheckResult {
	r := api.RuntimeCheckResult{Runtime: t.Word, Kind: t.Kind, Reachable: true, Enforced: []string{}}
	if err := d.w.reach(ctx); err != nil {
		r.Reachable, r.Why = false, err.Error()
	}
	return r
}

func (d *driver) Open(ctx context.Context, o remote.Opening) (remote.Site, error) {
	if err := d.w.reach(ctx); err != nil {
		return nil, err
	}
	s := &site{w: d.w, rec: record{Kind: o.Target.Kind}}
	if o.Target.Kind == api.PlaceSSH {
		s.rec.ID = d.w.add("", "").id
	} else {
		o.Progress(api.PlaceProgress{Step: "start", Message: "making a directory"})
		s.rec.ID = d.w.add(o.Daemon, o.SessionID).id
	}
	return s, nil
}

func (d *driver) Restore(rec json.RawMessage) (remote.Site, error) {
	s := &site{w: d.w}
	return s, json.Unmarshal(rec, &s.rec)
}

func (d *driver) Sweep(ctx context.Context, daemon string, keep func(string) bool) ([]string, error) {
	if err := d.w.reach(ctx); err != nil {
		return nil, err
	}
	var removed []string
	for _, p := range d.w.list() {
		if p.session != "" && p.daemon == daemon && !keep(p.session) {
			if err := d.w.remove(p); err != nil {
				return removed, err
			}
			removed = append(removed, p.id)
		}
	}
	return removed, nil
}

func (d *driver) Close() {}

// record describes a site to a later daemon.
type record struct {
	ID   string        `json:"id"`
	Kind api.PlaceKind `json:"kind"`
}

type site struct {
	w   *World
	rec record
}

func (s *site) ID() string { return s.rec.ID }

func (s *site) Record() json.RawMessage {
	text, err := json.Marshal(s.rec)
	if err != nil {
		s.w.t.Error(err)
	}
	return text
}

func (s *site) Info() api.PlaceInfo {
	return api.PlaceInfo{Kind: s.rec.Kind, Host: s.rec.ID, OS: runtime.GOOS, Arch: runtime.GOARCH}
}

// Install links the runner into the place. All places have one cache.
func (s *site) Install(ctx context.Context, progress func(api.PlaceProgress)) (string, error) {
	if err := s.w.reach(ctx); err != nil {
		return "", err
	}
	p, err := s.w.living(s.rec.ID)
	if err != nil {
		return "", err
	}
	program, err := runners.Find(runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return "", err
	}
	cached := filepath.Join(s.w.dir, program.FileName())
	if info, err := os.Stat(cached); err != nil || info.Size() != program.Size {
		progress(api.PlaceProgress{Step: "upload", Message: "copying the runner", Total: program.Size})
		if err := upload(program, cached); err != nil {
			return "", err
		}
	}
	path := filepath.Join(p.dir, program.FileName())
	if err := os.Symlink(cached, path); err != nil && !os.IsExist(err) {
		return "", err
	}
	return path, nil
}

func upload(program runners.Program, path string) error {
	content, err := program.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	return state.ReplaceFile(path, content, 0o700)
}

func (s *site) Exec(ctx context.Context, argv []string) (remote.Process, error) {
	if err := s.w.reach(ctx); err != nil {
		return nil, err
	}
	p, err := s.w.living(s.rec.ID)
	if err != nil {
		return nil, err
	}
	return s.w.start(p, argv)
}

func (s *site) Remove(ctx context.Context) error {
	if err := s.w.reach(ctx); err != nil {
		return err
	}
	s.w.mu.Lock()
	p := s.w.places[s.rec.ID]
	s.w.mu.Unlock()
	if p == nil || p.session == "" {
		return nil
	}
	return s.w.remove(p)
}
