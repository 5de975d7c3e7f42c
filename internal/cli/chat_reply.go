package cli

import (
	"context"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// answered ends the asking when somebody else was faster, or the agent does not ask any more.
func (t *talk) answered(r api.DialogueRequest) {
	if t.answering != nil && t.answering.RequestID == r.RequestID {
		t.answering.How = r.How
	}
	if t.asking == nil || t.asking.request.RequestID != r.RequestID {
		return
	}
	t.asking = nil
	how := map[string]string{"withdrawn": "the agent does not ask any more", "lost": "the agent is gone"}[r.How]
	if how == "" {
		how = "somebody else has answered: " + r.Decision
	}
	t.view.note(ui.Dim, how)
	t.ask.Reset(0)
}

// askNext asks the person about the request that has waited longest.
func (t *talk) askNext() {
	if t.asking != nil || t.answering != nil || len(t.course.requests) == 0 {
		return
	}
	t.asking = &asker{request: t.course.requests[0], shown: time.Now()}
	t.view.begin("text")
	t.view.write(t.asking.text(t.app.Stdout))
}

// reply takes an answer to what is asked.
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
	t.course.take(api.DialogueEvent{Type: api.DialogueEventRequestClosed, Request: &api.DialogueRequest{RequestID: p.RequestID}})
	t.call(func(ctx context.Context) error {
		_, err := t.client.DialogueRespond(ctx, p)
		return err
	}, t.replied)
}

// replied takes what became of an answer. A question whose answer was refused is asked
// again, unless it is over.
func (t *talk) replied(err error) {
	request, held := *t.answering, t.held
	t.answering, t.held = nil, nil
	if err != nil {
		t.problem(err)
	}
	if err == nil || errors.Is(err, api.ErrConflict) || request.How != "" {
		for _, l := range held {
			t.line(l)
		}
		t.ask.Reset(0)
		return
	}
	for _, l := range held {
		t.notSent(l.text)
	}
	t.course.requests = slices.Insert(t.course.requests, 0, request)
	t.askNext()
	t.asking.again = true
}

// notSent tells of a line of which nobody knows whether it is an answer or a message.
func (t *talk) notSent(line string) {
	t.view.note(ui.Yellow, "typed before this is asked again, and not sent: "+line)
}
