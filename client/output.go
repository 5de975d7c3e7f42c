package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/trl-dev/trl/api"
)

var _ api.OutputReader = (*Client)(nil)

// ReadOutput implements api.OutputReader: it returns a piece of the output of a command as bytes.
// HTTP carries raw bytes, other transports carry text. The piece may be shorter than the limit.
func (c *Client) ReadOutput(ctx context.Context, p api.ExecOutputParams, wait bool) (api.OutputBytes, error) {
	if p.Grep != "" {
		return api.OutputBytes{}, api.InvalidParam("grep", "cannot be combined with bytes")
	}
	if err := p.Check(); err != nil {
		return api.OutputBytes{}, err
	}
	if p.Stream == "" {
		p.Stream = api.EventStdout
	}
	out, err := c.piece(ctx, p)
	if err != nil || !wait || len(out.Bytes) > 0 || out.Complete || p.Limit != nil && *p.Limit == 0 {
		return out, err
	}
	if err := c.awaitOutput(ctx, p.ExecID, p.Stream, out.NextOffset); err != nil {
		return out, err
	}
	if p.Tail != nil { // new output begins where the end was
		p.Tail, p.Offset = nil, out.NextOffset
	}
	return c.piece(ctx, p)
}

// piece reads the output that exists.
func (c *Client) piece(ctx context.Context, p api.ExecOutputParams) (api.OutputBytes, error) {
	w, ok := c.way.(*web)
	if !ok || p.Tail != nil {
		r, err := c.ExecOutput(ctx, p)
		out := api.OutputBytes{ExecOutputResult: r, Bytes: api.Data(r.Data, r.DataBase64)}
		out.Data, out.DataBase64 = "", ""
		return out, err
	}
	o := c.outage()
	for {
		out, err := w.raw(ctx, p)
		if err == nil || !retry(err, true) {
			return out, err
		}
		if err := o.wait(ctx, c.done, err); err != nil {
			return out, err
		}
	}
}

// awaitOutput returns when the stream has a byte at the offset, or is complete.
func (c *Client) awaitOutput(ctx context.Context, execID, stream string, offset int64) error {
	s, err := c.ExecStream(ctx, api.ExecStreamParams{ExecID: execID, Stream: stream, FromOffset: offset})
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Recv(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// raw requests the bytes from the offset on. A range that begins at the end of the output is not
// satisfiable, and its answer does not describe the command; raw then repeats the request without a
// range.
func (w *web) raw(ctx context.Context, p api.ExecOutputParams) (api.OutputBytes, error) {
	limit := int64(api.DefaultOutputLimit)
	if p.Limit != nil {
		limit = *p.Limit
	}
	path := "/v1/exec/" + url.PathEscape(p.ExecID) + "/" + p.Stream
	var gap *api.Span
	for {
		var out api.OutputBytes
		var err error
		status := http.StatusRequestedRangeNotSatisfiable
		if limit > 0 {
			header := http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", p.Offset, p.Offset+limit-1)}}
			out, status, err = w.bytes(ctx, path, header, limit)
		}
		if status == http.StatusRequestedRangeNotSatisfiable {
			out, status, err = w.bytes(ctx, fmt.Sprintf("%s?offset=%d", path, p.Offset), nil, limit)
		}
		if status == http.StatusGone && gap == nil && out.Gap != nil {
			gap = &api.Span{From: p.Offset, To: out.Gap.To}
			p.Offset = gap.To
			continue
		}
		out.ExecID, out.Stream = p.ExecID, p.Stream
		if out.NextGap = out.Gap; out.NextGap != nil {
			out.Complete = false
		}
		out.Gap = gap
		return out, err
	}
}

// bytes makes one request for output. It fills in the values of the headers even if there is an
// error.
func (w *web) bytes(ctx context.Context, path string, header http.Header, limit int64) (out api.OutputBytes, status int, err error) {
	resp, end, err := w.request(ctx, http.MethodGet, path, nil, header)
	if err != nil {
		return out, 0, w.failed(ctx, err)
	}
	defer end()
	defer resp.Body.Close()
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(resp.Header.Get(name), 10, 64)
		return n
	}
	out.Offset, out.TotalBytes = number("X-Trl-Offset"), number("X-Trl-Total-Bytes")
	out.State = api.ExecState(resp.Header.Get("X-Trl-State"))
	var g api.Span
	if n, _ := fmt.Sscanf(resp.Header.Get("X-Trl-Gap"), "%d-%d", &g.From, &g.To); n == 2 {
		out.Gap = &g
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent {
		text, err := w.body(ctx, resp)
		if err == nil {
			err = w.refused(resp.StatusCode, text)
		}
		return out, resp.StatusCode, err
	}
	if out.Bytes, err = io.ReadAll(io.LimitReader(resp.Body, limit)); err != nil {
		return out, resp.StatusCode, w.failed(ctx, err)
	}
	out.NextOffset = out.Offset + int64(len(out.Bytes))
	out.Complete = resp.Header.Get("X-Trl-Complete") == "true" && out.NextOffset == out.TotalBytes
	return out, resp.StatusCode, nil
}
