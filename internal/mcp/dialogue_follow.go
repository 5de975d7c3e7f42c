package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
)

// minimumTime is the time that an agent has to answer even if the client's patience has run out.
const minimumTime = 2 * time.Second

// askAgent makes a request to an agent, within the client's patience.
func askAgent[T any](ctx call, ask func(context.Context) (T, error)) (T, error) {
	wait, cancel := context.WithTimeout(ctx, max(time.Until(ctx.until), minimumTime))
	defer cancel()
	answer, err := ask(wait)
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		err = api.Errorf(api.CodeAgentFailed, "the agent has not answered yet, and the request may still take effect: check with dialogue_send, or end it with dialogue_stop")
	}
	return answer, err
}

// followDialogue waits for a working agent, within the client's patience, and returns the events
// since the model last looked.
func (c *conn) followDialogue(ctx call, info api.DialogueInfo, timeoutS float64, limit int64) (string, error) {
	began := time.Now()
	patience := ctx.until.Sub(began)
	if timeoutS > 0 {
		patience = min(patience, time.Duration(timeoutS*float64(time.Second)))
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.mu.Lock()
	after, known := c.reported[info.DialogueID]
	c.mu.Unlock()
	if !known { // the model reads earlier events with dialogue_read
		after = info.Seq
	}
	var d digest
	stop := c.progress(ctx, d.status)
	seq, err := c.collect(wait, info, after, &d)
	stop()
	if err != nil && (wait.Err() == nil || ctx.Err() != nil) {
		return "", err
	}
	c.mu.Lock()
	c.reported[info.DialogueID] = max(c.reported[info.DialogueID], seq)
	c.mu.Unlock()
	now, err := c.Service.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: info.DialogueID})
	if err != nil {
		return "", err
	}
	return c.dialogueAnswer(ctx, now, dialogueNews{text: d.text(), waited: time.Since(began), limit: limit})
}

// collect adds the events after a number to the digest: those of a working agent until it stops
// working, otherwise those in the record. It returns the number of the last one.
func (c *conn) collect(ctx context.Context, info api.DialogueInfo, after int64, d *digest) (seq int64, err error) {
	working := info.State == api.DialogueRunning || info.State == api.DialogueStarting
	if !working && info.Seq <= after {
		return after, nil
	}
	s, err := c.Service.DialogueEvents(ctx, api.DialogueEventsParams{DialogueID: info.DialogueID, AfterSeq: after, NoDeltas: true, NoFollow: !working})
	if err != nil {
		return after, err
	}
	defer s.Close()
	for {
		push, err := s.Recv()
		if errors.Is(err, io.EOF) || err == nil && push.Type == api.EventEnd {
			return max(after, push.Seq), nil
		}
		if err != nil {
			return after, err
		}
		if push.Event == nil {
			continue
		}
		after = push.Seq
		d.add(*push.Event)
		if !working || push.Seq <= info.Seq || push.Event.Type != api.DialogueEventState {
			continue
		}
		switch push.Event.State {
		case api.DialogueIdle, api.DialogueError, api.DialogueEnded:
			return after, nil
		case api.DialogueRequiresAction: // a rule may already have answered the request
			now, err := c.Service.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: info.DialogueID})
			if err != nil {
				return after, err
			}
			if now.Requests > 0 {
				// A later request may be the open one: also collect the events up to it.
				now.State = api.DialogueRequiresAction
				return c.collect(ctx, now, after, d)
			}
		}
	}
}

// dialogueNews is the new part of a dialogue.
type dialogueNews struct {
	text   string
	waited time.Duration // how long the call has waited for it
	limit  int64         // the most bytes of text to return
}

// dialogueAnswer returns the new text and the state of a dialogue.
func (c *conn) dialogueAnswer(ctx call, info api.DialogueInfo, news dialogueNews) (string, error) {
	id := info.DialogueID
	var b strings.Builder
	b.WriteString(shorten(news.text, bytesOr(news.limit), fmt.Sprintf("dialogue_read {\"dialogue\": %q, \"tail\": %d}", id, len(news.text))))
	if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
		b.WriteByte('\n')
	}
	switch info.State {
	case api.DialogueRequiresAction:
		open, err := c.openRequests(ctx, id)
		if err != nil {
			return "", err
		}
		for _, r := range open {
			b.WriteString(requestText(id, r))
		}
		fmt.Fprintf(&b, "[%s waits for your answer]", id)
	case api.DialogueRunning, api.DialogueStarting:
		fmt.Fprintf(&b, "[%s still works after %s; continue with dialogue_send {\"dialogue\": %q}, or stop it with dialogue_stop]", id, news.waited.Round(time.Second/10), id)
	case api.DialogueError:
		fmt.Fprintf(&b, "[%s]", faultNote(info))
	case api.DialogueEnded:
		fmt.Fprintf(&b, "[%s has ended; dialogue_start {\"resume\": %q} continues it]", id, id)
	default:
		fmt.Fprintf(&b, "[%s is %s]", id, info.State)
	}
	return b.String(), nil
}

func (c *conn) openRequests(ctx context.Context, id string) (open []api.DialogueRequest, err error) {
	tr, err := c.Service.DialogueTranscript(ctx, api.DialogueTranscriptParams{DialogueID: id})
	for _, r := range tr.Requests {
		if r.How == "" {
			open = append(open, r)
		}
	}
	return open, err
}
