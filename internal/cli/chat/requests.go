package chat

import (
	"context"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// answered ends the question about a request that another client answered or the agent
// withdrew.
func (t *talk) answered(r api.DialogueRequest) {
	if t.answering != nil && t.answering.RequestID == r.RequestID {
		t.answering.How = r.How
	}
	if t.asking == nil || t.asking.request.RequestID != r.RequestID {
		return
	}
	t.asking = nil
	how := map[string]string{"withdrawn": "the agent has withdrawn the request", "lost": "the agent has ended"}[r.How]
	if how == "" {
		who := "another client"
		if r.AnsweredBy != nil && r.AnsweredBy.Label != "" {
			who = ui.Printable(r.AnsweredBy.Label)
		}
		how = who + " has answered: " + r.Decision
	}
	t.view.note(ui.Dim, how)
	t.askTimer.Reset(0)
}

// askNext asks the person about the request that has waited longest.
func (t *talk) askNext() {
	if t.asking != nil || t.answering != nil || len(t.progress.requests) == 0 {
		return
	}
	t.asking = &asker{request: t.progress.requests[0], shown: time.Now()}
	t.view.begin("text")
	t.view.write(t.asking.describe(t.streams.Stdout))
}

// reply takes a line as the answer to the current question.
func (t *talk) reply(line string) {
	if !utf8.ValidString(line) {
		t.view.note(ui.Red, notUTF8)
		return
	}
	p, done, problem := t.asking.answer(line)
	if problem != "" {
		t.view.note(ui.Red, problem)
	}
	if !done {
		return
	}
	p.DialogueID = t.info.DialogueID
	t.answering, t.asking = &t.asking.request, nil
	t.progress.apply(api.DialogueEvent{Type: api.DialogueEventRequestClosed, Request: &api.DialogueRequest{RequestID: p.RequestID}})
	t.call(func(ctx context.Context) error {
		_, err := t.client.DialogueRespond(ctx, p)
		return err
	}, t.replied)
}

// replied handles the outcome of an answer. If the daemon refused the answer, it asks again,
// unless the request is closed.
func (t *talk) replied(err error) {
	request, held := *t.answering, t.held
	t.answering, t.held = nil, nil
	if err != nil {
		t.problem(err)
	}
	if err == nil || errors.Is(err, api.ErrConflict) || request.How != "" {
		for _, l := range held {
			t.handleLine(l)
		}
		t.askTimer.Reset(0)
		return
	}
	for _, l := range held {
		t.notSent(l.text)
	}
	t.progress.requests = slices.Insert(t.progress.requests, 0, request)
	t.askNext()
	t.asking.again = true
}

// notSent prints a line that is not sent because it may be an answer or a message.
func (t *talk) notSent(line string) {
	t.view.note(ui.Yellow, "not sent, because it was typed before this question came again: "+line)
}
