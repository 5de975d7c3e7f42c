//go:build linux

package places

import (
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// paused tests a container that is paused: its session is unreachable until it continues.
func (p *place) paused(t *testing.T) {
	s := p.create(api.SessionCreateParams{})
	defer p.destroy(s.SessionID)
	p.command("docker", "pause", s.Place.Container)
	_, err := p.ExecRun(p.ctx, api.ExecParams{SessionID: s.SessionID, Command: "true"})
	testkit.WantError(t, err, api.CodeRuntimeUnavailable, "end it with session.destroy and force")
	info := testkit.Must(p.SessionInfo(p.ctx, api.SessionInfoParams{SessionID: s.SessionID}))(t)
	if info.Reachable || info.UnreachableSince == nil || info.UnreachableWhy == "" {
		t.Errorf("while it is paused: %+v", info.SessionInfo)
	}
	p.command("docker", "unpause", s.Place.Container)
	testkit.Eventually(t, "the session is reachable", func() bool {
		return testkit.Must(p.SessionInfo(p.ctx, api.SessionInfoParams{SessionID: s.SessionID}))(t).Reachable
	})
	if r := testkit.Must(p.ExecRun(p.ctx, api.ExecParams{SessionID: s.SessionID, Command: "echo on"}))(t); r.Stdout != "on\n" {
		t.Errorf("%+v", r)
	}
}
