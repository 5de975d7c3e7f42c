package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/server"
)

// recorded is the text of the recordings of the service. It has characters of several bytes.
var recorded = `{"version":3}` + "\n" + strings.Repeat(`[0.1, "o", "é中😀"]`+"\n", 100_000)

// RecordingRead reads s-00000000aa, which is complete, or s-00000000bb, which grows. As the real one does,
// it returns whole characters, at least one.
func (s *service) RecordingRead(_ context.Context, p api.RecordingReadParams) (api.RecordingReadResult, error) {
	live := p.RecordingID == "s-00000000bb"
	total := int64(len(recorded))
	switch {
	case p.RecordingID != "s-00000000aa" && !live:
		return api.RecordingReadResult{}, api.Errorf(api.CodeSessionNotFound, "recording %q: not found", p.RecordingID)
	case p.Offset > total:
		return api.RecordingReadResult{}, api.InvalidParam("offset", "is beyond the end")
	}
	end := min(p.Offset+max(*p.Limit, 4), total)
	for end < total && recorded[end]&0xC0 == 0x80 { // inside a character
		end--
	}
	return api.RecordingReadResult{RecordingID: p.RecordingID, Offset: p.Offset, Data: recorded[p.Offset:end], Total: total, Complete: end == total && !live}, nil
}

// TestHTTPRecording: GET and HEAD of a recording return it as it is, whole or in ranges.
func TestHTTPRecording(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	total := len(recorded)
	tag := fmt.Sprintf(`"s-00000000aa-%d"`, total)
	inside := strings.Index(recorded, "中") + 1 // the second byte of a character
	for _, c := range []struct {
		path, ranges, condition string
		first, last             int // of the body, exclusive
		content                 string
	}{
		{"aa", "", "", 0, total, ""},
		{"aa?offset=10", "", "", 10, total, ""},
		{"bb", "", "", 0, total, ""},
		{"aa", "bytes=0-0", "", 0, 1, fmt.Sprintf("bytes 0-0/%d", total)},
		{"bb", "bytes=0-9", "", 0, 10, "bytes 0-9/*"},
		{"aa", fmt.Sprintf("bytes=%d-%d", inside, inside), "", inside, inside + 1, fmt.Sprintf("bytes %d-%d/%d", inside, inside, total)},
		{"aa", fmt.Sprintf("bytes=5-%d", inside+1_500_000), "", 5, inside + 1_500_001, fmt.Sprintf("bytes 5-%d/%d", inside+1_500_000, total)},
		{"aa", "bytes=-7", "", total - 7, total, fmt.Sprintf("bytes %d-%d/%d", total-7, total-1, total)},
		{"aa", "bytes=7-", "", 7, total, fmt.Sprintf("bytes 7-%d/%d", total-1, total)},
		{"aa", fmt.Sprintf("bytes=-%d", 1<<20+2), "", total - 1<<20 - 2, total, fmt.Sprintf("bytes %d-%d/%d", total-1<<20-2, total-1, total)}, // the last piece has two bytes
		{"aa", "bytes=7-8", tag, 7, 9, fmt.Sprintf("bytes 7-8/%d", total)},
		{"aa", "bytes=7-8", `"s-00000000aa-1"`, 0, total, ""},
		{"aa", "bytes=7-8", "W/" + tag, 0, total, ""},
		{"aa", "bytes=7-8", "Tue, 17 Nov 2026 14:00:00 GMT", 0, total, ""},
		{"aa", "lines=1-2", "", 0, total, ""},
	} {
		header := []string{"Authorization", "Bearer " + readToken}
		if c.ranges != "" {
			header = append(header, "Range", c.ranges)
		}
		if c.condition != "" {
			header = append(header, "If-Range", c.condition)
		}
		for _, verb := range []string{"GET", "HEAD"} {
			resp, text := w.do(verb, "/v1/recording/s-00000000"+c.path, "", header...)
			name := fmt.Sprintf("%s %s %s %s", verb, c.path, c.ranges, c.condition)
			status := 200
			if c.content != "" {
				status = 206
			}
			if verb == "GET" && text != recorded[c.first:c.last] {
				t.Errorf("%s: %d bytes, want %d, or others", name, len(text), c.last-c.first)
			}
			if resp.StatusCode != status || resp.ContentLength != int64(c.last-c.first) || resp.Header.Get("Content-Range") != c.content {
				t.Errorf("%s: %d, %d bytes, %q", name, resp.StatusCode, resp.ContentLength, resp.Header.Get("Content-Range"))
			}
			if strings.HasPrefix(c.path, "aa") && resp.Header.Get("ETag") != tag || resp.Header.Get("Content-Type") != "application/x-asciicast" || resp.Header.Get("Accept-Ranges") != "bytes" {
				t.Errorf("%s: %v", name, resp.Header)
			}
		}
	}
}

func TestHTTPRecordingRefused(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	for _, verb := range []string{"GET", "HEAD"} {
		w.refused(404, api.CodeSessionNotFound, verb, "/v1/recording/s-0000000000", "")
	}
	for _, id := range []string{"", "s-1", "../../etc/passwd", "s-00000000aa/", "s-00000000AA", "demo", "%00"} {
		w.refused(400, api.CodeInvalidParams, "GET", "/v1/recording/"+id, "")
	}
	for _, query := range []string{"offset=-1", "offset=x", "follow=1", "limit=5", "offset=1&offset=2"} {
		w.refused(400, api.CodeInvalidParams, "GET", "/v1/recording/s-00000000aa?"+query, "")
	}
	w.refused(400, api.CodeInvalidParams, "GET", "/v1/recording/s-00000000aa?offset=1", "", "Range", "bytes=1-2")
	w.refused(405, api.CodeInvalidParams, "DELETE", "/v1/recording/s-00000000aa", "")
	want := fmt.Sprintf("bytes */%d", len(recorded))
	for _, r := range []string{"bytes=99999999-", "bytes=-0", "bytes=5-4", "bytes=a-b", "bytes=-", "bytes=1-2,4-5", "bytes=99999999999999999999-"} {
		resp, _ := w.refused(416, api.CodeInvalidParams, "GET", "/v1/recording/s-00000000aa", "", "Range", r)
		if got := resp.Header.Get("Content-Range"); got != want {
			t.Errorf("%s: %q, want %q", r, got, want)
		}
	}
	resp, _ := w.refused(416, api.CodeInvalidParams, "GET", "/v1/recording/s-00000000aa?offset=99999999", "")
	if got := resp.Header.Get("Content-Range"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
