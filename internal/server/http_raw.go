package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/trl-dev/trl/api"
)

// Headers that describe raw output, whose bytes describe nothing. With follow they come as
// trailers, except the first.
const (
	headerOffset     = "X-Trl-Offset"      // of the first byte
	headerNextOffset = "X-Trl-Next-Offset" // where to read on
	headerTotal      = "X-Trl-Total-Bytes" // that the stream has had until now
	headerState      = "X-Trl-State"       // of the command
	headerComplete   = "X-Trl-Complete"    // true: nothing follows, now or later
	headerGap        = "X-Trl-Gap"         // FROM-TO: the bytes after the body that are no longer kept
)

// rawType is the type of bare bytes.
const rawType = "application/octet-stream"

// rawBytes is how much is read at once.
const rawBytes = 1 << 20

// output is a stream of bytes, for raw.
type output struct {
	method string // of the API, that reads it
	name   string // of what it belongs to, for people
	stream string
	// contentType is the type of the bytes; "" for bare bytes. tag is a strong entity tag, if there is one.
	contentType, tag string
	// read reads a piece of the stream. With a limit of 0 it reports only the length of the stream.
	read func(ctx context.Context, offset, limit int64, wait bool) (api.OutputBytes, error)
}

// raw answers GET /v1/exec/{id}/stdout and stderr: the bytes as they are.
func (x *exchange) raw(exec, stream string) {
	x.method = "exec.output"
	reader, ok := x.http.server.cfg.Service.(api.OutputReader)
	if !ok {
		x.fail(api.Errorf(api.CodeInternal, "raw output: this service has none"))
		return
	}
	offset, follow, cause := x.rawQuery()
	if cause != nil {
		x.fail(cause)
		return
	}
	if !x.admitID("exec_id", exec) {
		return
	}
	read := func(ctx context.Context, offset, limit int64, wait bool) (api.OutputBytes, error) {
		return reader.ReadOutput(ctx, api.ExecOutputParams{ExecID: exec, Stream: stream, Offset: offset, Limit: &limit}, wait)
	}
	x.sendRaw(output{method: x.method, name: fmt.Sprintf("exec %q", exec), stream: stream, read: read}, offset, follow)
}

// admitID reports whether the request may call its method for the thing with this id. If not, it
// answers the request.
func (x *exchange) admitID(field, id string) bool {
	text, err := json.Marshal(map[string]string{field: id})
	if err != nil {
		x.fail(api.AsError(err))
		return false
	}
	params := json.RawMessage(text)
	return x.admit(x.http.server.methods[x.method], &params)
}

// sendRaw sends the requested part of a stream.
func (x *exchange) sendRaw(o output, offset int64, follow bool) {
	now, err := o.read(x.ctx, 0, 0, false)
	if err != nil {
		x.fail(explain(err, x.conn.ctx, x.shuttingDown()))
		return
	}
	if o.tag != "" {
		x.w.Header().Set("ETag", o.tag)
	}
	part, cause := x.rawPart(now, offset, x.ranged(o.tag))
	if cause != nil {
		x.outOfRange(now, cause)
		return
	}
	part.cutAtGap(now)
	x.describe(now, part)
	switch {
	case part.first == part.last && part.gap != nil:
		x.gone(o, part)
	case follow:
		x.follow(o, part.first)
	default:
		x.whole(o, part)
	}
}

// rawQuery reads ?offset= and ?follow=. The offset is -1 when it is not given.
func (x *exchange) rawQuery() (offset int64, follow bool, cause *api.Error) {
	offset = -1
	query, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		return 0, false, api.Errorf(api.CodeInvalidParams, "query: %s", err)
	}
	for name, values := range query {
		switch {
		case len(values) > 1:
			return 0, false, api.InvalidParam(shortened(name), "appears twice")
		case name == "offset":
			if offset, err = strconv.ParseInt(values[0], 10, 64); err != nil || offset < 0 {
				return 0, false, api.InvalidParam(name, "must be a whole number that is not negative")
			}
		case name == "follow":
			if follow, err = strconv.ParseBool(values[0]); err != nil {
				return 0, false, api.InvalidParam(name, "must be 1 or 0")
			}
		default:
			return 0, false, api.InvalidParam(shortened(name), "unknown")
		}
	}
	if x.r.Header.Get("Range") != "" && (follow || offset >= 0) {
		return 0, false, api.Errorf(api.CodeInvalidParams, "header Range: cannot be given together with offset or follow")
	}
	return offset, follow, nil
}

// ranged reports whether the Range header counts. One with a condition counts only if the condition
// is the tag of the stream.
func (x *exchange) ranged(tag string) bool {
	condition := x.r.Header.Get("If-Range")
	return x.r.Header.Get("Range") != "" && (condition == "" || tag != "" && condition == tag)
}

// rawSpan is the requested part of a stream: the bytes [first, last).
type rawSpan struct {
	first, last int64
	ranged      bool      // by a Range header, so that the answer is 206
	gap         *api.Span // where the part was cut off; nil when it was not
}

// rawPart returns the requested part, or an error if the stream does not have it.
func (x *exchange) rawPart(now api.OutputBytes, offset int64, ranged bool) (rawSpan, *api.Error) {
	total := now.TotalBytes
	if ranged {
		r, ok, cause := parseRange(x.r.Header.Get("Range"))
		if cause != nil || ok {
			if cause == nil {
				var first, last int64
				if first, last, ok = r.within(total); ok {
					return rawSpan{first: first, last: last, ranged: true}, nil
				}
				cause = api.Errorf(api.CodeInvalidParams, "header Range: %s has %d bytes until now", now.Stream, total)
			}
			return rawSpan{}, cause
		}
	}
	offset = max(offset, 0)
	if offset > total {
		return rawSpan{}, api.InvalidParam("offset", "%d is beyond the end; %s has %d bytes until now", offset, now.Stream, total)
	}
	return rawSpan{first: offset, last: total}, nil
}

// cutAtGap ends the part before the first bytes that are no longer kept.
func (p *rawSpan) cutAtGap(now api.OutputBytes) {
	gap := now.NextGap
	if now.Gap != nil { // at the very beginning
		gap = now.Gap
	}
	if gap == nil || gap.To <= p.first || gap.From >= p.last {
		return
	}
	p.last = max(p.first, gap.From)
	p.gap = &api.Span{From: p.last, To: gap.To}
}

// outOfRange answers a request for what the stream does not have.
func (x *exchange) outOfRange(now api.OutputBytes, cause *api.Error) {
	x.w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", now.TotalBytes))
	x.w.Header().Set(headerTotal, strconv.FormatInt(now.TotalBytes, 10))
	x.refuse(http.StatusRequestedRangeNotSatisfiable, cause)
}

// describe sets the headers that the part has, however it is sent.
func (x *exchange) describe(now api.OutputBytes, p rawSpan) {
	header := x.w.Header()
	header.Set("Accept-Ranges", "bytes")
	header.Set(headerOffset, strconv.FormatInt(p.first, 10))
	header.Set(headerTotal, strconv.FormatInt(now.TotalBytes, 10))
	x.describeEnd(now.State, p.last, p.gap, now.State == api.ExecClosed && p.last == now.TotalBytes && p.gap == nil)
}

// describeEnd sets the headers, or trailers, that say where the body ends and why.
func (x *exchange) describeEnd(state api.ExecState, next int64, gap *api.Span, complete bool) {
	header := x.w.Header()
	header.Set(headerState, string(state))
	header.Set(headerComplete, strconv.FormatBool(complete))
	if gap != nil {
		header.Set(headerGap, fmt.Sprintf("%d-%d", gap.From, gap.To))
		next = gap.To
	}
	header.Set(headerNextOffset, strconv.FormatInt(next, 10))
}

// gone answers a request whose first byte is no longer kept: the headers say where the output
// continues.
func (x *exchange) gone(o output, p rawSpan) {
	e := api.Errorf(api.CodeInvalidParams, "%s: the bytes %d to %d of %s are no longer kept; the output continues at %d", o.name, p.gap.From, p.gap.To-1, o.stream, p.gap.To)
	e.Details = map[string]any{"gap": p.gap, "next_offset": p.gap.To}
	x.refuse(http.StatusGone, e)
}

// whole sends a part whose length is known.
func (x *exchange) whole(o output, p rawSpan) {
	header := x.w.Header()
	header.Set("Content-Type", cmp.Or(o.contentType, rawType))
	header.Set("Content-Length", strconv.FormatInt(p.last-p.first, 10))
	status := http.StatusOK
	if p.ranged {
		status = http.StatusPartialContent
		total := "*" // it may still grow
		if header.Get(headerState) == string(api.ExecClosed) {
			total = header.Get(headerTotal)
		}
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%s", p.first, p.last-1, total))
	}
	x.http.server.counts.request(transportHTTP, x.method, nil)
	x.w.WriteHeader(status)
	if x.r.Method == http.MethodHead {
		return
	}
	if p.first == p.last {
		return
	}
	pieces := x.readAhead(o, p.first, p.last)
	defer pieces.close()
	for p.first < p.last {
		out, err := pieces.take()
		if err != nil || out.Offset != p.first || len(out.Bytes) == 0 {
			// Dropped meanwhile, or out of reach. What is missing must not look complete.
			x.log.Debug("raw output interrupted", "of", o.name, "offset", p.first, "error", err)
			panic(http.ErrAbortHandler)
		}
		if !x.writeRaw(out.Bytes) {
			return
		}
		p.first += int64(len(out.Bytes))
	}
}

// follow sends present and future output, until the output is complete or a part of it is no
// longer kept.
func (x *exchange) follow(o output, offset int64) {
	header := x.w.Header()
	header.Set("Content-Type", rawType)
	for _, name := range []string{headerNextOffset, headerState, headerComplete, headerGap} {
		header.Del(name)
		header.Add("Trailer", name)
	}
	x.http.server.counts.request(transportHTTP, x.method, nil)
	x.w.WriteHeader(http.StatusOK)
	if x.r.Method == http.MethodHead || x.w.FlushError() != nil {
		return
	}
	pieces := x.readAhead(o, offset, -1)
	defer pieces.close()
	for {
		out, err := pieces.take()
		switch {
		case err != nil:
			x.log.Debug("raw output interrupted", "of", o.name, "offset", offset, "error", err)
			panic(http.ErrAbortHandler) // a proper end would look complete
		case out.Offset != offset:
			x.describeEnd(out.State, out.Offset, &api.Span{From: offset, To: out.Offset}, false)
			return
		}
		if !x.writeRaw(out.Bytes) || x.w.FlushError() != nil {
			return
		}
		offset += int64(len(out.Bytes))
		if out.Complete {
			x.describeEnd(out.State, offset, nil, true)
			return
		}
	}
}

func (x *exchange) writeRaw(b []byte) bool {
	x.http.server.counts.streamed(transportHTTP, len(b))
	_, err := x.w.Write(b)
	return err == nil
}
