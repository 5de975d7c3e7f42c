package daemon

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/doctor"
)

// examine checks the daemon and its machine. The audit log has the one call that asks for it, and not
// those that the doctor makes.
func (d *daemon) examine(ctx context.Context) ([]api.DoctorFinding, error) {
	files := doctor.Files{StateDir: d.state.Path(), RuntimeDir: d.config.RuntimeDir}
	if d.listener != nil {
		files.Socket = d.address()
	}
	return doctor.Run(ctx, d.plain, files)
}

// diskUsage measures the files in the state directory. Output in files without a name is not among them.
func (d *daemon) diskUsage(ctx context.Context) (api.DiskUsage, error) {
	var u api.DiskUsage
	root := filepath.Clean(d.state.Path())
	kinds := map[string]*int64{"past": &u.Output, "recordings": &u.Recordings, "dialogues": &u.Dialogues, "audit": &u.Audit}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil // it was removed meanwhile, or a session made it unreadable
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		top, _, _ := strings.Cut(strings.TrimPrefix(path, root+"/"), "/")
		to := kinds[top]
		if to == nil {
			to = &u.Other
		}
		*to += info.Size()
		return nil
	})
	u.Free, _ = d.freeDisk()
	return u, err
}
