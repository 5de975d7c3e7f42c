package client

import (
	"context"
	"encoding/base64"

	"github.com/trl-dev/trl/api"
)

// SystemPing implements api.Service.
func (c *Client) SystemPing(ctx context.Context, p api.SystemPingParams) (api.SystemPingResult, error) {
	return typed[api.SystemPingResult](ctx, c, "system.ping", p)
}

// SystemStats implements api.Service.
func (c *Client) SystemStats(ctx context.Context, p api.SystemStatsParams) (api.SystemStatsResult, error) {
	return typed[api.SystemStatsResult](ctx, c, "system.stats", p)
}

// SystemSettings implements api.Service.
func (c *Client) SystemSettings(ctx context.Context, p api.SystemSettingsParams) (api.SystemSettingsResult, error) {
	return typed[api.SystemSettingsResult](ctx, c, "system.settings", p)
}

// SystemDoctor implements api.Service.
func (c *Client) SystemDoctor(ctx context.Context, p api.SystemDoctorParams) (api.SystemDoctorResult, error) {
	return typed[api.SystemDoctorResult](ctx, c, "system.doctor", p)
}

// SystemInfo implements api.Service.
func (c *Client) SystemInfo(ctx context.Context, p api.SystemInfoParams) (api.SystemInfoResult, error) {
	return typed[api.SystemInfoResult](ctx, c, "system.info", p)
}

// SystemHello gives the connections of this Client a label: the current one, and every connection that
// replaces it after a loss.
func (c *Client) SystemHello(ctx context.Context, p api.SystemHelloParams) (api.SystemHelloResult, error) {
	r, err := typed[api.SystemHelloResult](ctx, c, "system.hello", p)
	if w, again := c.way.(interface{ keepLabel(string) }); again && err == nil {
		w.keepLabel(p.Label)
	}
	return r, err
}

// RecordingList implements api.Service.
func (c *Client) RecordingList(ctx context.Context, p api.RecordingListParams) (api.RecordingListResult, error) {
	return typed[api.RecordingListResult](ctx, c, "recording.list", p)
}

// RecordingRead implements api.Service.
func (c *Client) RecordingRead(ctx context.Context, p api.RecordingReadParams) (api.RecordingReadResult, error) {
	return typed[api.RecordingReadResult](ctx, c, "recording.read", p)
}

// RecordingDelete implements api.Service.
func (c *Client) RecordingDelete(ctx context.Context, p api.RecordingDeleteParams) (api.RecordingDeleteResult, error) {
	return typed[api.RecordingDeleteResult](ctx, c, "recording.delete", p)
}

// SystemUpgrade implements api.Service.
func (c *Client) SystemUpgrade(ctx context.Context, p api.SystemUpgradeParams) (api.SystemUpgradeResult, error) {
	return typed[api.SystemUpgradeResult](ctx, c, "system.upgrade", p)
}

// SystemHTTP implements api.Service.
func (c *Client) SystemHTTP(ctx context.Context, p api.SystemHTTPParams) (api.SystemHTTPResult, error) {
	return typed[api.SystemHTTPResult](ctx, c, "system.http", p)
}

// WebOpen implements api.Service.
func (c *Client) WebOpen(ctx context.Context, p api.WebOpenParams) (api.WebOpenResult, error) {
	return typed[api.WebOpenResult](ctx, c, "web.open", p)
}

// WebShare implements api.Service.
func (c *Client) WebShare(ctx context.Context, p api.WebShareParams) (api.WebShareResult, error) {
	return typed[api.WebShareResult](ctx, c, "web.share", p)
}

// WebList implements api.Service.
func (c *Client) WebList(ctx context.Context, p api.WebListParams) (api.WebListResult, error) {
	return typed[api.WebListResult](ctx, c, "web.list", p)
}

// WebRevoke implements api.Service.
func (c *Client) WebRevoke(ctx context.Context, p api.WebRevokeParams) (api.WebRevokeResult, error) {
	return typed[api.WebRevokeResult](ctx, c, "web.revoke", p)
}

// AuditList implements api.Service.
func (c *Client) AuditList(ctx context.Context, p api.AuditListParams) (api.AuditListResult, error) {
	return typed[api.AuditListResult](ctx, c, "audit.list", p)
}

// AuditVerify implements api.Service.
func (c *Client) AuditVerify(ctx context.Context, p api.AuditVerifyParams) (api.AuditVerifyResult, error) {
	return typed[api.AuditVerifyResult](ctx, c, "audit.verify", p)
}

// RuntimeList implements api.Service.
func (c *Client) RuntimeList(ctx context.Context, p api.RuntimeListParams) (api.RuntimeListResult, error) {
	return typed[api.RuntimeListResult](ctx, c, "runtime.list", p)
}

// RuntimeCheck implements api.Service.
func (c *Client) RuntimeCheck(ctx context.Context, p api.RuntimeCheckParams) (api.RuntimeCheckResult, error) {
	return typed[api.RuntimeCheckResult](ctx, c, "runtime.check", p)
}

// RuntimePrune implements api.Service.
func (c *Client) RuntimePrune(ctx context.Context, p api.RuntimePruneParams) (api.RuntimePruneResult, error) {
	return typed[api.RuntimePruneResult](ctx, c, "runtime.prune", p)
}

// GuestStart implements api.Service.
func (c *Client) GuestStart(ctx context.Context, p api.GuestStartParams) (api.GuestInfo, error) {
	return typed[api.GuestInfo](ctx, c, "guest.start", p)
}

// GuestConnect implements api.Service. The stream ends with its connection: it cannot be continued.
func (c *Client) GuestConnect(ctx context.Context, p api.GuestConnectParams) (api.Stream, error) {
	s, err := c.way.open(ctx, "guest.connect", p)
	if err != nil {
		return nil, unwrapLost(err)
	}
	return s, nil
}

// GuestSend implements api.Service.
func (c *Client) GuestSend(ctx context.Context, p api.GuestSendParams) (api.GuestSendResult, error) {
	if len(p.Bytes) > 0 && p.DataBase64 == "" {
		p.DataBase64, p.Bytes = base64.StdEncoding.EncodeToString(p.Bytes), nil
	}
	return typed[api.GuestSendResult](ctx, c, "guest.send", p)
}

// GuestEnd implements api.Service.
func (c *Client) GuestEnd(ctx context.Context, p api.GuestEndParams) (api.GuestEndResult, error) {
	return typed[api.GuestEndResult](ctx, c, "guest.end", p)
}

// GuestList implements api.Service.
func (c *Client) GuestList(ctx context.Context, p api.GuestListParams) (api.GuestListResult, error) {
	return typed[api.GuestListResult](ctx, c, "guest.list", p)
}

// SessionCreate implements api.Service.
func (c *Client) SessionCreate(ctx context.Context, p api.SessionCreateParams) (api.SessionInfo, error) {
	create := func() (api.SessionInfo, error) { return typed[api.SessionInfo](ctx, c, "session.create", p) }
	if !p.Ephemeral {
		return create()
	}
	return c.makeOwner(create)
}

// SessionList implements api.Service.
func (c *Client) SessionList(ctx context.Context, p api.SessionListParams) (api.SessionListResult, error) {
	return typed[api.SessionListResult](ctx, c, "session.list", p)
}

// SessionInfo implements api.Service.
func (c *Client) SessionInfo(ctx context.Context, p api.SessionInfoParams) (api.SessionDetails, error) {
	return typed[api.SessionDetails](ctx, c, "session.info", p)
}

// SessionSet implements api.Service.
func (c *Client) SessionSet(ctx context.Context, p api.SessionSetParams) (api.SessionInfo, error) {
	return typed[api.SessionInfo](ctx, c, "session.set", p)
}

// SessionOwn implements api.Service.
func (c *Client) SessionOwn(ctx context.Context, p api.SessionOwnParams) (api.SessionInfo, error) {
	return c.makeOwner(func() (api.SessionInfo, error) { return typed[api.SessionInfo](ctx, c, "session.own", p) })
}

// SessionDestroy implements api.Service.
func (c *Client) SessionDestroy(ctx context.Context, p api.SessionDestroyParams) (api.SessionDestroyResult, error) {
	return typed[api.SessionDestroyResult](ctx, c, "session.destroy", p)
}

// SessionInput implements api.Service.
func (c *Client) SessionInput(ctx context.Context, p api.SessionInputParams) (api.SessionInputResult, error) {
	return typed[api.SessionInputResult](ctx, c, "session.input", p)
}

// SessionResize implements api.Service.
func (c *Client) SessionResize(ctx context.Context, p api.SessionResizeParams) (api.SessionResizeResult, error) {
	return typed[api.SessionResizeResult](ctx, c, "session.resize", p)
}

// SessionScreen implements api.Service.
func (c *Client) SessionScreen(ctx context.Context, p api.SessionScreenParams) (api.SessionScreenResult, error) {
	return typed[api.SessionScreenResult](ctx, c, "session.screen", p)
}

// SessionWait implements api.Service.
func (c *Client) SessionWait(ctx context.Context, p api.SessionWaitParams) (api.SessionWaitResult, error) {
	return typed[api.SessionWaitResult](ctx, c, "session.wait", p)
}

// SessionRecording implements api.Service.
func (c *Client) SessionRecording(ctx context.Context, p api.SessionRecordingParams) (api.SessionRecordingResult, error) {
	return typed[api.SessionRecordingResult](ctx, c, "session.recording", p)
}

// ExecRun implements api.Service.
func (c *Client) ExecRun(ctx context.Context, p api.ExecParams) (api.ExecResult, error) {
	if c.once(&p.RunID) {
		r, err := typed[api.ExecResult](ctx, c, "exec.run", p)
		if !c.isOlder(err) {
			return r, err
		}
		p.RunID = ""
	}
	return typed[api.ExecResult](ctx, c, "exec.run", p)
}

// ExecStart implements api.Service.
func (c *Client) ExecStart(ctx context.Context, p api.ExecParams) (api.ExecInfo, error) {
	if c.once(&p.RunID) {
		r, err := typed[api.ExecInfo](ctx, c, "exec.start", p)
		if !c.isOlder(err) {
			return r, err
		}
		p.RunID = ""
	}
	return typed[api.ExecInfo](ctx, c, "exec.start", p)
}

// ExecOutput implements api.Service.
func (c *Client) ExecOutput(ctx context.Context, p api.ExecOutputParams) (api.ExecOutputResult, error) {
	return typed[api.ExecOutputResult](ctx, c, "exec.output", p)
}

// ExecInput implements api.Service.
func (c *Client) ExecInput(ctx context.Context, p api.ExecInputParams) (api.ExecInputResult, error) {
	if len(p.Bytes) > 0 { // the daemon could not see that the caller set the data twice
		if err := p.Check(); err != nil {
			return api.ExecInputResult{}, err
		}
	}
	return typed[api.ExecInputResult](ctx, c, "exec.input", p)
}

// ExecWait implements api.Service.
func (c *Client) ExecWait(ctx context.Context, p api.ExecWaitParams) (api.ExecWaitResult, error) {
	return typed[api.ExecWaitResult](ctx, c, "exec.wait", p)
}

// ExecSignal implements api.Service.
func (c *Client) ExecSignal(ctx context.Context, p api.ExecSignalParams) (api.ExecSignalResult, error) {
	return typed[api.ExecSignalResult](ctx, c, "exec.signal", p)
}

// ExecCancel implements api.Service.
func (c *Client) ExecCancel(ctx context.Context, p api.ExecCancelParams) (api.ExecInfo, error) {
	return typed[api.ExecInfo](ctx, c, "exec.cancel", p)
}

// ExecInfo implements api.Service.
func (c *Client) ExecInfo(ctx context.Context, p api.ExecInfoParams) (api.ExecInfo, error) {
	return typed[api.ExecInfo](ctx, c, "exec.info", p)
}

// ExecList implements api.Service.
func (c *Client) ExecList(ctx context.Context, p api.ExecListParams) (api.ExecListResult, error) {
	return typed[api.ExecListResult](ctx, c, "exec.list", p)
}
