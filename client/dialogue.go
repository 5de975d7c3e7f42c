package client

import (
	"context"

	"github.com/trl-dev/trl/api"
)

// StreamClose implements api.Service. A Stream of this package has its own Close.
func (c *Client) StreamClose(ctx context.Context, p api.StreamCloseParams) (api.StreamCloseResult, error) {
	return typed[api.StreamCloseResult](ctx, c, "stream.close", p)
}

// DialogueCreate implements api.Service.
func (c *Client) DialogueCreate(ctx context.Context, p api.DialogueCreateParams) (api.DialogueInfo, error) {
	return typed[api.DialogueInfo](ctx, c, "dialogue.create", p)
}

// DialogueList implements api.Service.
func (c *Client) DialogueList(ctx context.Context, p api.DialogueListParams) (api.DialogueListResult, error) {
	return typed[api.DialogueListResult](ctx, c, "dialogue.list", p)
}

// DialogueInfo implements api.Service.
func (c *Client) DialogueInfo(ctx context.Context, p api.DialogueInfoParams) (api.DialogueInfo, error) {
	return typed[api.DialogueInfo](ctx, c, "dialogue.info", p)
}

// DialogueRequests implements api.Service.
func (c *Client) DialogueRequests(ctx context.Context, p api.DialogueRequestsParams) (api.DialogueRequestsResult, error) {
	return typed[api.DialogueRequestsResult](ctx, c, "dialogue.requests", p)
}

// DialogueSend implements api.Service.
func (c *Client) DialogueSend(ctx context.Context, p api.DialogueSendParams) (api.DialogueSendResult, error) {
	return typed[api.DialogueSendResult](ctx, c, "dialogue.send", p)
}

// DialogueUnsend implements api.Service.
func (c *Client) DialogueUnsend(ctx context.Context, p api.DialogueUnsendParams) (api.DialogueInfo, error) {
	return typed[api.DialogueInfo](ctx, c, "dialogue.unsend", p)
}

// DialogueInterrupt implements api.Service.
func (c *Client) DialogueInterrupt(ctx context.Context, p api.DialogueInterruptParams) (api.DialogueInfo, error) {
	return typed[api.DialogueInfo](ctx, c, "dialogue.interrupt", p)
}

// DialogueRespond implements api.Service.
func (c *Client) DialogueRespond(ctx context.Context, p api.DialogueRespondParams) (api.DialogueInfo, error) {
	return typed[api.DialogueInfo](ctx, c, "dialogue.respond", p)
}

// DialogueSet implements api.Service.
func (c *Client) DialogueSet(ctx context.Context, p api.DialogueSetParams) (api.DialogueInfo, error) {
	return typed[api.DialogueInfo](ctx, c, "dialogue.set", p)
}

// DialogueEvents implements api.Service. The Stream is a *Stream.
func (c *Client) DialogueEvents(ctx context.Context, p api.DialogueEventsParams) (api.Stream, error) {
	s := c.newStream(ctx, "dialogue.events")
	s.seq = p.AfterSeq
	s.again = func() any {
		q := p
		q.AfterSeq = s.seq
		return q
	}
	return s.open(p, true)
}

// DialogueTranscript implements api.Service.
func (c *Client) DialogueTranscript(ctx context.Context, p api.DialogueTranscriptParams) (api.DialogueTranscriptResult, error) {
	return typed[api.DialogueTranscriptResult](ctx, c, "dialogue.transcript", p)
}

// DialogueItem implements api.Service.
func (c *Client) DialogueItem(ctx context.Context, p api.DialogueItemParams) (api.DialogueItemResult, error) {
	return typed[api.DialogueItemResult](ctx, c, "dialogue.item", p)
}

// DialogueSearch implements api.Service.
func (c *Client) DialogueSearch(ctx context.Context, p api.DialogueSearchParams) (api.DialogueSearchResult, error) {
	return typed[api.DialogueSearchResult](ctx, c, "dialogue.search", p)
}

// DialogueLines implements api.Service.
func (c *Client) DialogueLines(ctx context.Context, p api.DialogueLinesParams) (api.DialogueLinesResult, error) {
	return typed[api.DialogueLinesResult](ctx, c, "dialogue.lines", p)
}

// DialogueRaw implements api.Service.
func (c *Client) DialogueRaw(ctx context.Context, p api.DialogueRawParams) (api.DialogueRawResult, error) {
	return typed[api.DialogueRawResult](ctx, c, "dialogue.raw", p)
}

// DialogueTerminate implements api.Service.
func (c *Client) DialogueTerminate(ctx context.Context, p api.DialogueTerminateParams) (api.DialogueInfo, error) {
	return typed[api.DialogueInfo](ctx, c, "dialogue.terminate", p)
}

// DialogueResume implements api.Service.
func (c *Client) DialogueResume(ctx context.Context, p api.DialogueResumeParams) (api.DialogueInfo, error) {
	return typed[api.DialogueInfo](ctx, c, "dialogue.resume", p)
}

// DialogueRetry implements api.Service.
func (c *Client) DialogueRetry(ctx context.Context, p api.DialogueRetryParams) (api.DialogueInfo, error) {
	return typed[api.DialogueInfo](ctx, c, "dialogue.retry", p)
}
