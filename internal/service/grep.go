package service

import (
	"context"
	"regexp"

	"github.com/trl-dev/trl/api"
)

const (
	// grepPiece is how many bytes are fetched at once for a search.
	grepPiece = 256 << 10
	// maxLines bounds the lines of one answer: empty ones take no bytes of the limit.
	maxLines = 10_000
)

// grep returns the lines that match, up to the end that the stream has at the beginning of the
// search. The limit bounds their bytes. Of a line longer than 64 KiB only these are searched and
// shown. The last line counts if it has its end, or if no output can follow. A gap splits a
// line; at a second gap the answer ends.
func (r *reader) grep(ctx context.Context, pattern *regexp.Regexp) (api.ExecOutputResult, error) {
	got, data, err := r.fetch(ctx, r.offset, grepPiece, false)
	if err != nil {
		return api.ExecOutputResult{}, err
	}
	result := r.result(got.Offset, got.Gap)
	result.Lines = []api.OutputLine{}
	stop, left := got.Total, r.limit
	at := got.Offset // the offset of the next fetch
	done := at       // lines have been searched up to here
	look := func(l line) bool {
		if pattern.Match(l.text) {
			if len(result.Lines) >= maxLines || int64(len(l.text)) > left && len(result.Lines) > 0 || left <= 0 {
				return false
			}
			result.Lines = append(result.Lines, l.shown(left))
			left -= int64(len(l.text)) + 1
		}
		done = l.end
		return true
	}
	var lines lines
	full := false
	for {
		full = !lines.feed(at, data, look)
		at += int64(len(data))
		if full || at >= stop || len(data) == 0 {
			break
		}
		next, more, err := r.fetch(ctx, at, grepPiece, false)
		if err != nil {
			return api.ExecOutputResult{}, err
		}
		if next.Gap != nil {
			if result.Gap != nil {
				break
			}
			if last, ok := lines.open(at); ok && !look(last) {
				full = true
				break
			}
			lines.drop()
			result.Gap, at, done = next.Gap, next.Offset, next.Offset
		}
		got, data = next, more
	}
	if last, ok := lines.open(at); ok && !full && got.Complete {
		full = !look(last)
	}
	result.note(got, done)
	result.Complete = got.Complete && done == at && !full
	return result.ExecOutputResult, nil
}
