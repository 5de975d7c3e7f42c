package service

import (
	"context"
	"regexp"

	"github.com/trl-dev/trl/api"
)

const (
	// grepPiece is how much is fetched at once when lines are looked for.
	grepPiece = 256 << 10
	// maxLines bounds the lines of one answer: empty ones take no bytes of the limit.
	maxLines = 10_000
)

// grep looks for lines that match, up to the end that the stream has when it begins.
// Limit bounds their bytes. A line longer than 64 KiB is matched, and shown, as if it
// had only these. The last line counts when it has its end, or when nothing can follow.
// What is gone splits a line; when a second gap appears, the answer ends before it.
func (r *reader) grep(ctx context.Context, pattern *regexp.Regexp) (api.ExecOutputResult, error) {
	got, data, err := r.fetch(ctx, r.offset, grepPiece, false)
	if err != nil {
		return api.ExecOutputResult{}, err
	}
	result := r.result(got.Offset, got.Gap)
	result.Lines = []api.OutputLine{}
	stop, left := got.Total, r.limit
	at := got.Offset // where the next bytes are to be fetched
	done := at       // up to where lines have been looked at
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
