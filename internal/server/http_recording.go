package server

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
)

// castType is the type of a recording.
const castType = "application/x-asciicast"

// recording answers GET /v1/recording/{id}: the file as it is.
func (x *exchange) recording(id string) {
	x.method = "recording.read"
	offset, follow, cause := x.rawQuery()
	if cause == nil && follow {
		cause = api.InvalidParam("follow", "is not for recordings; read on from the offset where the last answer ended")
	}
	if cause != nil {
		x.fail(cause)
		return
	}
	if !x.admitID("recording_id", id) {
		return
	}
	read := func(ctx context.Context, offset, limit int64) (api.OutputBytes, error) {
		p := api.RecordingReadParams{RecordingID: id, Offset: offset, Limit: &limit}
		if err := p.Check(); err != nil {
			return api.OutputBytes{}, err
		}
		r, err := x.http.server.cfg.Service.RecordingRead(ctx, p)
		out := api.OutputBytes{Bytes: []byte(r.Data)}
		out.Stream, out.Offset, out.TotalBytes, out.State, out.Complete = "the recording", r.Offset, r.Total, api.ExecRunning, r.Complete
		if r.Complete {
			out.State = api.ExecClosed
		}
		return out, err
	}
	begin, err := read(x.ctx, 0, 1)
	if err != nil {
		x.fail(explain(err, x.conn.ctx, x.shuttingDown()))
		return
	}
	o := output{method: x.method, name: fmt.Sprintf("recording %q", id), stream: begin.Stream, contentType: castType}
	// A recording only grows, so its length says which bytes it has.
	o.tag = fmt.Sprintf("%q", fmt.Sprintf("%s-%d", id, begin.TotalBytes))
	o.read = func(ctx context.Context, offset, limit int64, _ bool) (api.OutputBytes, error) {
		if limit == 0 { // a read at the end reports whether more follows
			out, err := read(ctx, begin.TotalBytes, 1)
			out.Bytes, out.TotalBytes = nil, begin.TotalBytes
			return out, err
		}
		// recording.read ends with a whole character, a range may end within one.
		out, err := read(ctx, offset, min(limit+utf8.UTFMax, api.MaxRecordingBytes))
		out.Complete = out.Complete && int64(len(out.Bytes)) <= limit
		out.Bytes = out.Bytes[:min(int64(len(out.Bytes)), limit)]
		return out, err
	}
	x.sendRaw(o, offset, false)
}
