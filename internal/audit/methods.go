package audit

import (
	"context"

	"github.com/trl-dev/trl/api"
)

// SystemDoctor implements api.Service.
func (s *Service) SystemDoctor(ctx context.Context, p api.SystemDoctorParams) (api.SystemDoctorResult, error) {
	return record(ctx, s, "system.doctor", p, s.Service.SystemDoctor)
}

// SystemUpgrade implements api.Service.
func (s *Service) SystemUpgrade(ctx context.Context, p api.SystemUpgradeParams) (api.SystemUpgradeResult, error) {
	return record(ctx, s, "system.upgrade", p, s.Service.SystemUpgrade)
}

// SystemHTTP implements api.Service.
func (s *Service) SystemHTTP(ctx context.Context, p api.SystemHTTPParams) (api.SystemHTTPResult, error) {
	return record(ctx, s, "system.http", p, s.Service.SystemHTTP)
}

// WebOpen implements api.Service.
func (s *Service) WebOpen(ctx context.Context, p api.WebOpenParams) (api.WebOpenResult, error) {
	return record(ctx, s, "web.open", p, s.Service.WebOpen)
}

// WebShare implements api.Service.
func (s *Service) WebShare(ctx context.Context, p api.WebShareParams) (api.WebShareResult, error) {
	return record(ctx, s, "web.share", p, s.Service.WebShare)
}

// WebRevoke implements api.Service.
func (s *Service) WebRevoke(ctx context.Context, p api.WebRevokeParams) (api.WebRevokeResult, error) {
	return record(ctx, s, "web.revoke", p, s.Service.WebRevoke)
}

// RecordingDelete implements api.Service.
func (s *Service) RecordingDelete(ctx context.Context, p api.RecordingDeleteParams) (api.RecordingDeleteResult, error) {
	return record(ctx, s, "recording.delete", p, s.Service.RecordingDelete)
}

// RuntimeCheck implements api.Service.
func (s *Service) RuntimeCheck(ctx context.Context, p api.RuntimeCheckParams) (api.RuntimeCheckResult, error) {
	return record(ctx, s, "runtime.check", p, s.Service.RuntimeCheck)
}

// RuntimePrune implements api.Service.
func (s *Service) RuntimePrune(ctx context.Context, p api.RuntimePruneParams) (api.RuntimePruneResult, error) {
	return record(ctx, s, "runtime.prune", p, s.Service.RuntimePrune)
}

// GuestStart implements api.Service.
func (s *Service) GuestStart(ctx context.Context, p api.GuestStartParams) (api.GuestInfo, error) {
	return record(ctx, s, "guest.start", p, s.Service.GuestStart)
}

// GuestConnect implements api.Service.
func (s *Service) GuestConnect(ctx context.Context, p api.GuestConnectParams) (api.Stream, error) {
	return record(ctx, s, "guest.connect", p, s.Service.GuestConnect)
}

// GuestSend implements api.Service.
func (s *Service) GuestSend(ctx context.Context, p api.GuestSendParams) (api.GuestSendResult, error) {
	return record(ctx, s, "guest.send", p, s.Service.GuestSend)
}

// GuestEnd implements api.Service.
func (s *Service) GuestEnd(ctx context.Context, p api.GuestEndParams) (api.GuestEndResult, error) {
	return record(ctx, s, "guest.end", p, s.Service.GuestEnd)
}

// GuestList implements api.Service.
func (s *Service) GuestList(ctx context.Context, p api.GuestListParams) (api.GuestListResult, error) {
	return record(ctx, s, "guest.list", p, s.Service.GuestList)
}

// SessionCreate implements api.Service.
func (s *Service) SessionCreate(ctx context.Context, p api.SessionCreateParams) (api.SessionInfo, error) {
	return record(ctx, s, "session.create", p, s.Service.SessionCreate)
}

// SessionSet implements api.Service.
func (s *Service) SessionSet(ctx context.Context, p api.SessionSetParams) (api.SessionInfo, error) {
	return record(ctx, s, "session.set", p, s.Service.SessionSet)
}

// SessionOwn implements api.Service.
func (s *Service) SessionOwn(ctx context.Context, p api.SessionOwnParams) (api.SessionInfo, error) {
	return record(ctx, s, "session.own", p, s.Service.SessionOwn)
}

// SessionDestroy implements api.Service.
func (s *Service) SessionDestroy(ctx context.Context, p api.SessionDestroyParams) (api.SessionDestroyResult, error) {
	return record(ctx, s, "session.destroy", p, s.Service.SessionDestroy)
}

// SessionInput implements api.Service.
func (s *Service) SessionInput(ctx context.Context, p api.SessionInputParams) (api.SessionInputResult, error) {
	return record(ctx, s, "session.input", p, s.Service.SessionInput)
}

// SessionResize implements api.Service.
func (s *Service) SessionResize(ctx context.Context, p api.SessionResizeParams) (api.SessionResizeResult, error) {
	return record(ctx, s, "session.resize", p, s.Service.SessionResize)
}

// SessionAttach implements api.Service.
func (s *Service) SessionAttach(ctx context.Context, p api.SessionAttachParams) (api.Stream, error) {
	if p.Watches() {
		return s.Service.SessionAttach(ctx, p)
	}
	return record(ctx, s, "session.attach", p, s.Service.SessionAttach)
}

// ExecRun implements api.Service.
func (s *Service) ExecRun(ctx context.Context, p api.ExecParams) (api.ExecResult, error) {
	return record(ctx, s, "exec.run", p, s.Service.ExecRun)
}

// ExecStart implements api.Service.
func (s *Service) ExecStart(ctx context.Context, p api.ExecParams) (api.ExecInfo, error) {
	return record(ctx, s, "exec.start", p, s.Service.ExecStart)
}

// ExecStream implements api.Service.
func (s *Service) ExecStream(ctx context.Context, p api.ExecStreamParams) (api.Stream, error) {
	if p.Follows() {
		return s.Service.ExecStream(ctx, p)
	}
	return record(ctx, s, "exec.stream", p, s.Service.ExecStream)
}

// ExecInput implements api.Service.
func (s *Service) ExecInput(ctx context.Context, p api.ExecInputParams) (api.ExecInputResult, error) {
	return record(ctx, s, "exec.input", p, s.Service.ExecInput)
}

// ExecSignal implements api.Service.
func (s *Service) ExecSignal(ctx context.Context, p api.ExecSignalParams) (api.ExecSignalResult, error) {
	return record(ctx, s, "exec.signal", p, s.Service.ExecSignal)
}

// ExecCancel implements api.Service.
func (s *Service) ExecCancel(ctx context.Context, p api.ExecCancelParams) (api.ExecInfo, error) {
	return record(ctx, s, "exec.cancel", p, s.Service.ExecCancel)
}

// DialogueCreate implements api.Service.
func (s *Service) DialogueCreate(ctx context.Context, p api.DialogueCreateParams) (api.DialogueInfo, error) {
	return record(ctx, s, "dialogue.create", p, s.Service.DialogueCreate)
}

// DialogueSend implements api.Service.
func (s *Service) DialogueSend(ctx context.Context, p api.DialogueSendParams) (api.DialogueSendResult, error) {
	return record(ctx, s, "dialogue.send", p, s.Service.DialogueSend)
}

// DialogueUnsend implements api.Service.
func (s *Service) DialogueUnsend(ctx context.Context, p api.DialogueUnsendParams) (api.DialogueInfo, error) {
	return record(ctx, s, "dialogue.unsend", p, s.Service.DialogueUnsend)
}

// DialogueInterrupt implements api.Service.
func (s *Service) DialogueInterrupt(ctx context.Context, p api.DialogueInterruptParams) (api.DialogueInfo, error) {
	return record(ctx, s, "dialogue.interrupt", p, s.Service.DialogueInterrupt)
}

// DialogueRespond implements api.Service.
func (s *Service) DialogueRespond(ctx context.Context, p api.DialogueRespondParams) (api.DialogueInfo, error) {
	return record(ctx, s, "dialogue.respond", p, s.Service.DialogueRespond)
}

// DialogueSet implements api.Service.
func (s *Service) DialogueSet(ctx context.Context, p api.DialogueSetParams) (api.DialogueInfo, error) {
	return record(ctx, s, "dialogue.set", p, s.Service.DialogueSet)
}

// DialogueTerminate implements api.Service.
func (s *Service) DialogueTerminate(ctx context.Context, p api.DialogueTerminateParams) (api.DialogueInfo, error) {
	return record(ctx, s, "dialogue.terminate", p, s.Service.DialogueTerminate)
}

// DialogueResume implements api.Service.
func (s *Service) DialogueResume(ctx context.Context, p api.DialogueResumeParams) (api.DialogueInfo, error) {
	return record(ctx, s, "dialogue.resume", p, s.Service.DialogueResume)
}

// DialogueRetry implements api.Service.
func (s *Service) DialogueRetry(ctx context.Context, p api.DialogueRetryParams) (api.DialogueInfo, error) {
	return record(ctx, s, "dialogue.retry", p, s.Service.DialogueRetry)
}
