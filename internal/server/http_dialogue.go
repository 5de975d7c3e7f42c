package server

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/trl-dev/trl/api"
)

const dialogueMethod = "dialogue.events"

// dialogueEvents answers GET /v1/dialogue/{id}/events, for clients that can only GET.
func (x *exchange) dialogueEvents(id string) {
	x.get(dialogueMethod, map[string]queryKind{"after_seq": queryNumber, "no_follow": queryFlag, "no_deltas": queryFlag, "types": queryWords, "passive": queryFlag},
		map[string]any{"dialogue_id": id})
}

// dialogueResumable describes the stream of a dialogue. The stream of an ended dialogue is over
// too, unless the dialogue is resumed meanwhile; then events come soon.
func (x *exchange) dialogueResumable(ctx context.Context, p *api.DialogueEventsParams) (resumable, error) {
	info, err := x.http.server.cfg.Service.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: p.DialogueID})
	return resumable{name: fmt.Sprintf("dialogue %q", p.DialogueID), last: info.Seq, over: p.NoFollow || info.State == api.DialogueEnded}, err
}

// dialogueRaw answers GET /v1/dialogue/{id}/raw: what the agent's program wrote, byte for
// byte; or with stream=stdin, what was sent to it.
func (x *exchange) dialogueRaw(id string) {
	x.method = "dialogue.raw"
	p, offset, cause := x.dialogueRawQuery(id)
	if cause != nil {
		x.fail(cause)
		return
	}
	if !x.admitID("dialogue_id", id) {
		return
	}
	read := func(ctx context.Context, offset, limit int64) (api.DialogueRawResult, error) {
		p := p
		p.Offset, p.Limit = offset, &limit
		return x.http.server.cfg.Service.DialogueRaw(ctx, p)
	}
	begin, err := read(x.ctx, 0, 1)
	if err != nil {
		x.fail(explain(err, x.conn.ctx, x.shuttingDown()))
		return
	}
	p.Epoch = begin.Epoch // the last one may become another
	o := output{method: x.method, name: fmt.Sprintf("dialogue %q", id), stream: p.Stream}
	o.read = func(ctx context.Context, offset, limit int64, _ bool) (api.OutputBytes, error) {
		if limit == 0 {
			offset, limit = begin.Total, 1 // a read at the end reports whether more follows
		}
		r, err := read(ctx, offset, limit)
		out := api.OutputBytes{Bytes: api.Data(r.Data, r.DataBase64)}
		out.Stream, out.Offset, out.TotalBytes, out.State, out.Complete = p.Stream, r.Offset, r.Total, api.ExecRunning, r.Complete
		if r.Complete {
			out.State = api.ExecClosed
		}
		return out, err
	}
	x.sendRaw(o, offset, false)
}

// dialogueRawQuery reads ?epoch=, ?stream= and ?offset=. The offset is -1 when it is not given.
func (x *exchange) dialogueRawQuery(id string) (p api.DialogueRawParams, offset int64, cause *api.Error) {
	p, offset = api.DialogueRawParams{DialogueID: id, Stream: api.EventStdout}, -1
	query, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		return p, 0, api.Errorf(api.CodeInvalidParams, "query: %s", err)
	}
	for name, values := range query {
		switch {
		case len(values) > 1:
			return p, 0, api.InvalidParam(shortened(name), "appears twice")
		case name == "stream":
			p.Stream = values[0]
		case name == "epoch":
			if p.Epoch, err = strconv.Atoi(values[0]); err != nil || p.Epoch < 1 {
				return p, 0, api.InvalidParam(name, "must be a whole number from 1")
			}
		case name == "offset":
			if offset, err = strconv.ParseInt(values[0], 10, 64); err != nil || offset < 0 {
				return p, 0, api.InvalidParam(name, "must be a whole number that is not negative")
			}
		default:
			return p, 0, api.InvalidParam(shortened(name), "unknown")
		}
	}
	if x.r.Header.Get("Range") != "" && offset >= 0 {
		return p, 0, api.Errorf(api.CodeInvalidParams, "header Range: cannot be given together with offset")
	}
	return p, offset, nil
}
