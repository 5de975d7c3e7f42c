package server

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/login"
)

// share is what the login of a share may see: one session or one dialogue. Everything is refused that
// the tables below do not name, so a new method is refused until it is added here.
type share login.Only

// Methods that the login of a share may call. Those that list things return only what is shared.
// A recording is not shared: it may have what was typed and not shown, such as passwords.
var (
	sharedAlways   = []string{"system.ping", "stream.close", "event.subscribe", "session.list", "dialogue.list", "dialogue.requests"}
	sharedSession  = []string{"session.info", "session.screen", "session.attach"}
	sharedExec     = []string{"exec.info", "exec.output", "exec.stream"}
	sharedExecs    = []string{"exec.list"}
	sharedDialogue = []string{"dialogue.info", "dialogue.transcript", "dialogue.item", "dialogue.search", "dialogue.events"}
)

// pin refuses a call for anything but the shared thing, and returns the parameters with which the
// method is called.
func (o *share) pin(m api.Method, params json.RawMessage) (json.RawMessage, *api.Error) {
	if err := m.Check(params); err != nil { // from now on no field is there twice, or in capitals
		return nil, api.AsError(err)
	}
	var p struct {
		SessionID  string `json:"session_id"`
		ExecID     string `json:"exec_id"`
		DialogueID string `json:"dialogue_id"`
	}
	if len(params) > 0 {
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, api.Errorf(api.CodeInvalidParams, "params: must be a JSON object")
		}
	}
	ours := p.SessionID == "" || o.SessionID != "" && p.SessionID == o.SessionID
	allowed := false
	switch {
	case slices.Contains(sharedAlways, m.Name):
		allowed = ours
	case slices.Contains(sharedSession, m.Name), slices.Contains(sharedExecs, m.Name):
		allowed = o.SessionID != "" && p.SessionID == o.SessionID
	case slices.Contains(sharedExec, m.Name):
		allowed = ours && o.hasExec(p.ExecID)
	case slices.Contains(sharedDialogue, m.Name):
		allowed = o.DialogueID != "" && p.DialogueID == o.DialogueID
	}
	if !allowed {
		return nil, api.Errorf(api.CodeForbidden, "method %q: this login may only watch %s", m.Name, o)
	}
	var fields map[string]json.RawMessage
	if len(params) > 0 {
		if err := json.Unmarshal(params, &fields); err != nil {
			return nil, api.AsError(err)
		}
	}
	if fields == nil {
		return params, nil
	}
	switch m.Name {
	case "dialogue.events":
		fields["passive"] = json.RawMessage("true") // a viewer cannot answer the agent
	case "session.list", "dialogue.list":
		// The list has one entry. On pages, it could be on any, and next would name others.
		delete(fields, "limit")
		delete(fields, "after")
	case "session.attach":
		delete(fields, "label") // the other viewers do not know who sent it
	default:
		return params, nil
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, api.AsError(err)
	}
	return text, nil
}

// String names the shared thing.
func (o *share) String() string {
	if o.DialogueID != "" {
		return "dialogue " + o.DialogueID
	}
	return "session " + o.SessionID
}

// hasExec reports whether a command is one of the shared session, whose id is in its own.
func (o *share) hasExec(id string) bool {
	session, ok := strings.CutPrefix(o.SessionID, "s-")
	rest, found := strings.CutPrefix(id, "x-"+session+"-")
	return ok && session != "" && found && rest != "" && strings.Trim(rest, "0123456789") == ""
}

// trim removes from a result what is not shared: other things, tags, names of variables, and who answered.
func (o *share) trim(result any) any {
	switch r := result.(type) {
	case api.SessionListResult:
		r.Sessions = slices.DeleteFunc(slices.Clone(r.Sessions), func(s api.SessionInfo) bool { return s.SessionID != o.SessionID || o.SessionID == "" })
		for i := range r.Sessions {
			r.Sessions[i].Tags = []string{}
		}
		return r
	case api.SessionDetails:
		r.Tags, r.EnvKeys = []string{}, []string{}
		return r
	case api.DialogueListResult:
		r.Dialogues = slices.DeleteFunc(slices.Clone(r.Dialogues), func(d api.DialogueInfo) bool { return d.DialogueID != o.DialogueID || o.DialogueID == "" })
		for i := range r.Dialogues {
			r.Dialogues[i].Tags, r.Dialogues[i].Remote = []string{}, ""
		}
		return r
	case api.DialogueInfo:
		r.Tags, r.Remote = []string{}, ""
		return r
	case api.DialogueRequestsResult:
		r.Requests = slices.DeleteFunc(slices.Clone(r.Requests), func(w api.DialogueWaiting) bool { return w.DialogueID != o.DialogueID || o.DialogueID == "" })
		r.Recovering = slices.DeleteFunc(slices.Clone(r.Recovering), func(id string) bool { return id != o.DialogueID || o.DialogueID == "" })
		return r
	case api.DialogueTranscriptResult:
		r.Requests = slices.Clone(r.Requests)
		for i := range r.Requests {
			r.Requests[i].AnsweredBy = nil
		}
		return r
	case api.Stream:
		if _, ok := r.(api.ByteStream); ok {
			return r // the output of the shared session
		}
		return sharedStream{r, o}
	}
	return result
}

// sharedStream leaves out the events of other sessions and dialogues.
type sharedStream struct {
	api.Stream
	only *share
}

// Recv returns the next push that may be seen.
func (s sharedStream) Recv() (api.StreamEvent, error) {
	for {
		ev, err := s.Stream.Recv()
		if err != nil || s.only.sees(&ev) {
			return withoutLabels(ev), err
		}
	}
}

// withoutLabels removes the labels of viewers and of clients that answered, which may have names of
// people and machines.
func withoutLabels(ev api.StreamEvent) api.StreamEvent {
	ev.Viewers = slices.Clone(ev.Viewers)
	for i := range ev.Viewers {
		ev.Viewers[i].Label = ""
	}
	if ev.Event != nil && ev.Event.Request != nil && ev.Event.Request.AnsweredBy != nil {
		event, request := *ev.Event, *ev.Event.Request
		request.AnsweredBy = nil
		event.Request, ev.Event = &request, &event
	}
	return ev
}

// sees reports whether a push is about the shared thing. Pushes without an id belong to a stream
// that is about it alone.
func (o *share) sees(ev *api.StreamEvent) bool {
	if !strings.Contains(ev.Type, ".") { // no event of event.subscribe
		return true
	}
	return o.SessionID != "" && ev.SessionID == o.SessionID && ev.DialogueID == "" || o.DialogueID != "" && ev.DialogueID == o.DialogueID
}
