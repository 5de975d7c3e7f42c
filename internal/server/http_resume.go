package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/trl-dev/trl/api"
)

// resumption is the position of a client that resumes a stream.
type resumption struct {
	execID   string // of a command
	dialogue *api.DialogueEventsParams
	seq      int64
}

// resume puts the number with which a client resumes into the parameters. Without such a number
// it returns them unchanged.
func (x *exchange) resume(m api.Method, params json.RawMessage) (json.RawMessage, *resumption, *api.Error) {
	given := x.r.Header.Values(lastEventID)
	if len(given) == 0 || given[0] == "" {
		return params, nil, nil
	}
	seq, err := strconv.ParseInt(given[0], 10, 64)
	if err != nil || seq < 0 || len(given) > 1 {
		return nil, nil, api.Errorf(api.CodeInvalidParams, "header %s: %q is not the number of an event", lastEventID, shortened(given[0]))
	}
	fields := map[string]json.RawMessage{}
	if len(params) > 0 {
		// Wrong parameters can be recognised only before the parameters are changed.
		if err := m.Check(params); err != nil || json.Unmarshal(params, &fields) != nil {
			return params, nil, nil // the method reports the fault
		}
	}
	r := &resumption{seq: seq}
	if _, ok := fields["command"]; ok || m.Name == "exec.stream" {
		_ = json.Unmarshal(fields["exec_id"], &r.execID)
		if r.execID == "" {
			// A client that repeats its request must not run the command twice.
			return nil, nil, api.Errorf(api.CodeInvalidParams, "header %s: needs exec_id; the command runs already", lastEventID)
		}
	}
	switch m.Name {
	case attachMethod:
		resumeViewer(fields, seq)
	case dialogueMethod:
		r.dialogue = new(api.DialogueEventsParams)
		_ = json.Unmarshal(params, r.dialogue) // the method reports the fault
		fallthrough
	default:
		delete(fields, "from_offset")
		fields["after_seq"] = strconv.AppendInt(nil, seq, 10)
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, nil, api.AsError(err)
	}
	return text, r, nil
}

// first looks at the stream of a client that came back, before it is answered. If it
// has everything, the stream is over; a number that no push has had is refused.
func (x *exchange) first(ctx context.Context, s api.Stream, r *resumption) (ev *api.StreamEvent, over bool, cause *api.Error) {
	var known resumable
	var err error
	switch {
	case r == nil:
		return nil, false, nil
	case r.dialogue != nil:
		known, err = x.dialogueResumable(ctx, r.dialogue)
	case r.execID != "":
		known, err = x.execResumable(ctx, r.execID)
	default: // events of sessions, and terminals
		return nil, false, nil
	}
	switch {
	case err != nil:
		return nil, false, explain(err, x.conn.ctx, x.shuttingDown())
	case known.last >= 0 && r.seq > known.last:
		return nil, false, api.Errorf(api.CodeInvalidParams, "header %s: %d is beyond the end; %s is at %d", lastEventID, r.seq, known.name, known.last)
	case !known.over:
		return nil, false, nil
	}
	next, err := recv(x.log, s) // does not wait: nothing more comes
	last := next.Type == api.EventExit || next.Type == api.EventEnd
	switch {
	case errors.Is(err, io.EOF), err == nil && last && next.Seq <= r.seq: // the reader already has it
		return nil, true, nil
	case err != nil:
		return nil, false, explain(err, x.conn.ctx, x.shuttingDown())
	}
	return &next, false, nil
}

// resumable describes a stream that a client resumes.
type resumable struct {
	name string // for people
	last int64  // the highest number that a push can have had; negative when it is not known
	over bool   // nothing new comes
}

func (x *exchange) execResumable(ctx context.Context, id string) (resumable, error) {
	info, err := x.http.server.cfg.Service.ExecInfo(ctx, api.ExecInfoParams{ExecID: id})
	r := resumable{name: fmt.Sprintf("exec %q", id), last: info.LastSeq, over: info.Outcome != nil}
	if r.over {
		r.last = -1 // the exit has a number of its own
	}
	return r, err
}
