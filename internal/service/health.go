package service

import (
	"context"

	"github.com/trl-dev/trl/api"
)

// SystemSettings returns the settings that the daemon runs with.
func (s *Service) SystemSettings(context.Context, api.SystemSettingsParams) (api.SystemSettingsResult, error) {
	r := s.config.Settings
	if r.Settings == nil {
		r.Settings = []api.Setting{}
	}
	if r.Notes == nil {
		r.Notes = []string{}
	}
	return r, nil
}

// SystemDoctor checks the daemon and its machine. Checks of several callers follow each other.
func (s *Service) SystemDoctor(ctx context.Context, _ api.SystemDoctorParams) (api.SystemDoctorResult, error) {
	if s.config.Doctor == nil {
		return api.SystemDoctorResult{}, api.Errorf(api.CodeConflict, "daemon: cannot check itself here")
	}
	select {
	case s.examining <- struct{}{}:
		defer func() { <-s.examining }()
	case <-ctx.Done():
		return api.SystemDoctorResult{}, ctx.Err()
	}
	found, err := s.config.Doctor(ctx)
	return api.SystemDoctorResult{Findings: found}, err
}

// SystemLog pushes the daemon's log.
func (s *Service) SystemLog(ctx context.Context, p api.SystemLogParams) (api.Stream, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if s.config.Log == nil {
		return nil, api.Errorf(api.CodeConflict, "daemon: keeps no log here")
	}
	return s.config.Log(ctx, s.newStreamID("log"), p), nil
}
