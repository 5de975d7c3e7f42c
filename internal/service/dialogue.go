package service

import (
	"context"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue"
	"github.com/trl-dev/trl/internal/session"
)

// dialogueOf finds a dialogue by id or name.
func (s *Service) dialogueOf(ref string) (*dialogue.Dialogue, error) {
	if ref == "" {
		return nil, api.InvalidParam("dialogue_id", "is required")
	}
	return s.config.Dialogues.Get(ref)
}

// DialogueCreate starts an agent in a dialogue of its own.
func (s *Service) DialogueCreate(ctx context.Context, p api.DialogueCreateParams) (api.DialogueInfo, error) {
	if err := p.Check(); err != nil {
		return api.DialogueInfo{}, err
	}
	return s.config.Dialogues.Create(ctx, p)
}

// DialogueList lists the dialogues.
func (s *Service) DialogueList(_ context.Context, p api.DialogueListParams) (api.DialogueListResult, error) {
	if err := p.Check(); err != nil {
		return api.DialogueListResult{}, err
	}
	list, next, err := page(s.config.Dialogues.List(p), p.Page, func(d api.DialogueInfo) place { return place{d.CreatedAt, d.DialogueID} })
	return api.DialogueListResult{Dialogues: list, Next: next}, err
}

// DialogueInfo reports everything about one dialogue.
func (s *Service) DialogueInfo(_ context.Context, p api.DialogueInfoParams) (api.DialogueInfo, error) {
	d, err := s.dialogueOf(p.DialogueID)
	if err != nil {
		return api.DialogueInfo{}, err
	}
	return d.Info(), nil
}

// DialogueRequests lists the requests that wait for an answer.
func (s *Service) DialogueRequests(ctx context.Context, p api.DialogueRequestsParams) (api.DialogueRequestsResult, error) {
	if err := p.Check(); err != nil {
		return api.DialogueRequestsResult{}, err
	}
	return s.config.Dialogues.Requests(ctx, p)
}

// DialogueSend sends the agent a message.
func (s *Service) DialogueSend(ctx context.Context, p api.DialogueSendParams) (api.DialogueSendResult, error) {
	if err := p.Check(); err != nil {
		return api.DialogueSendResult{}, err
	}
	d, err := s.dialogueOf(p.DialogueID)
	if err != nil {
		return api.DialogueSendResult{}, err
	}
	return d.Send(ctx, p)
}

// DialogueUnsend takes back a message that is queued.
func (s *Service) DialogueUnsend(ctx context.Context, p api.DialogueUnsendParams) (api.DialogueInfo, error) {
	if err := p.Check(); err != nil {
		return api.DialogueInfo{}, err
	}
	d, err := s.dialogueOf(p.DialogueID)
	if err != nil {
		return api.DialogueInfo{}, err
	}
	return d.Unsend(ctx, p.MessageID)
}

// DialogueInterrupt stops the agent's current turn.
func (s *Service) DialogueInterrupt(ctx context.Context, p api.DialogueInterruptParams) (api.DialogueInfo, error) {
	d, err := s.dialogueOf(p.DialogueID)
	if err != nil {
		return api.DialogueInfo{}, err
	}
	return d.Interrupt(ctx)
}

// DialogueRespond answers a request of the agent.
func (s *Service) DialogueRespond(ctx context.Context, p api.DialogueRespondParams) (api.DialogueInfo, error) {
	if err := p.Check(); err != nil {
		return api.DialogueInfo{}, err
	}
	d, err := s.dialogueOf(p.DialogueID)
	if err != nil {
		return api.DialogueInfo{}, err
	}
	return d.Respond(ctx, p)
}

// DialogueSet changes the model, the permission mode or the policy.
func (s *Service) DialogueSet(ctx context.Context, p api.DialogueSetParams) (api.DialogueInfo, error) {
	if err := p.Check(); err != nil {
		return api.DialogueInfo{}, err
	}
	d, err := s.dialogueOf(p.DialogueID)
	if err != nil {
		return api.DialogueInfo{}, err
	}
	return d.Set(ctx, p)
}

// DialogueEvents pushes the events of a dialogue.
func (s *Service) DialogueEvents(ctx context.Context, p api.DialogueEventsParams) (api.Stream, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	d, err := s.dialogueOf(p.DialogueID)
	if err != nil {
		return nil, err
	}
	return d.Events(ctx, p)
}

// DialogueTranscript returns the transcript.
func (s *Service) DialogueTranscript(_ context.Context, p api.DialogueTranscriptParams) (api.DialogueTranscriptResult, error) {
	if err := p.Check(); err != nil {
		return api.DialogueTranscriptResult{}, err
	}
	d, err := s.dialogueOf(p.DialogueID)
	if err != nil {
		return api.DialogueTranscriptResult{}, err
	}
	return d.Transcript(p)
}

// DialogueItem returns one item of the transcript.
func (s *Service) DialogueItem(_ context.Context, p api.DialogueItemParams) (api.DialogueItemResult, error) {
	if err := p.Check(); err != nil {
		return api.DialogueItemResult{}, err
	}
	d, err := s.dialogueOf(p.DialogueID)
	if err != nil {
		return api.DialogueItemResult{}, err
	}
	return d.Item(p)
}

// DialogueSearch finds a text in the transcript.
func (s *Service) DialogueSearch(_ context.Context, p api.DialogueSearchParams) (api.DialogueSearchResult, error) {
	if err := p.Check(); err != nil {
		return api.DialogueSearchResult{}, err
	}
	d, err := s.dialogueOf(p.DialogueID)
	if err != nil {
		return api.DialogueSearchResult{}, err
	}
	return d.Search(p)
}

// DialogueLines reads the lines between TRL and the agent's program.
func (s *Service) DialogueLines(_ context.Context, p api.DialogueLinesParams) (api.DialogueLinesResult, error) {
	if err := p.Check(); err != nil {
		return api.DialogueLinesResult{}, err
	}
	d, err := s.dialogueOf(p.DialogueID)
	if err != nil {
		return api.DialogueLinesResult{}, err
	}
	return d.Lines(p)
}

// DialogueRaw reads the output of the agent's program.
func (s *Service) DialogueRaw(_ context.Context, p api.DialogueRawParams) (api.DialogueRawResult, error) {
	if err := p.Check(); err != nil {
		return api.DialogueRawResult{}, err
	}
	d, err := s.dialogueOf(p.DialogueID)
	if err != nil {
		return api.DialogueRawResult{}, err
	}
	return d.Raw(p)
}

// DialogueTerminate ends the agent's program and everything it started.
func (s *Service) DialogueTerminate(ctx context.Context, p api.DialogueTerminateParams) (api.DialogueInfo, error) {
	d, err := s.dialogueOf(p.DialogueID)
	if err != nil {
		return api.DialogueInfo{}, err
	}
	return d.Terminate(ctx, p)
}

// DialogueResume starts the agent again.
func (s *Service) DialogueResume(ctx context.Context, p api.DialogueResumeParams) (api.DialogueInfo, error) {
	if err := p.Check(); err != nil {
		return api.DialogueInfo{}, err
	}
	d, err := s.dialogueOf(p.DialogueID)
	if err != nil {
		return api.DialogueInfo{}, err
	}
	return d.Resume(ctx, p)
}

// DialogueRetry tries again to reach an agent.
func (s *Service) DialogueRetry(ctx context.Context, p api.DialogueRetryParams) (api.DialogueInfo, error) {
	d, err := s.dialogueOf(p.DialogueID)
	if err != nil {
		return api.DialogueInfo{}, err
	}
	return d.Retry(ctx)
}

// notOwned returns an error if the session belongs to a dialogue, because only the dialogue may
// write to its session and end it.
func notOwned(ctx context.Context, s *session.Session, force bool, instead string) error {
	if force {
		return nil
	}
	if err := s.Known(ctx); err != nil {
		return err
	}
	info := s.Info()
	owner := info.Owner()
	if info.State == api.SessionTerminated || owner == "" {
		return nil
	}
	e := api.Errorf(api.CodeConflict, "session %q: belongs to dialogue %s; use %s, or force", s.Label(), owner, instead)
	e.Details = map[string]any{"owner": owner}
	return e
}
