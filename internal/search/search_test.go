package search_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/search"
)

// pieces cuts data at random places.
func pieces(data []byte, seed uint64) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	var list [][]byte
	for len(data) > 0 {
		n := 1 + rng.IntN(min(len(data), 1+rng.IntN(2*search.MaxLine)))
		list, data = append(list, data[:n]), data[n:]
	}
	return list
}

// FuzzLines compares the lines with those of the whole text, however it is cut.
func FuzzLines(f *testing.F) {
	long := strings.Repeat("x", search.MaxLine)
	for i, text := range []string{"", "\n", "a\nb", "a\r\nb\r\n\r\n", "é\n\xff", long, long + "\n", "a" + long + "\r\nb\n", "a" + long + "b" + long + "c", long + "\r\n"} {
		f.Add([]byte(text), uint64(i), i%2 == 0)
		f.Add([]byte(text), uint64(i), i%2 == 1)
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64, tail bool) {
		l := search.Lines{Tail: tail}
		var got []search.Line
		offset := int64(7)
		for _, piece := range pieces(data, seed) {
			l.Feed(offset, piece, func(line search.Line) bool {
				line.Text = bytes.Clone(line.Text)
				got = append(got, line)
				return true
			})
			offset += int64(len(piece))
		}
		if open, ok := l.Open(offset); ok {
			got = append(got, open)
		}
		at := int64(7)
		var want []search.Line
		for _, text := range bytes.SplitAfter(data, []byte("\n")) {
			whole, complete := bytes.CutSuffix(text, []byte("\n"))
			line := search.Line{Offset: at, Text: whole, End: at + int64(len(text)), Cut: len(whole) > search.MaxLine}
			if line.Cut && tail {
				line.Text = whole[len(whole)-search.MaxLine:]
			} else if line.Cut {
				line.Text = whole[:search.MaxLine]
			}
			if tail || complete && !line.Cut {
				line.Text = bytes.TrimSuffix(line.Text, []byte("\r"))
			}
			if at = line.End; complete || len(text) > 0 {
				want = append(want, line)
			}
		}
		same := func(a, b search.Line) bool {
			return a.Offset == b.Offset && a.End == b.End && a.Cut == b.Cut && bytes.Equal(a.Text, b.Text)
		}
		if !slices.EqualFunc(got, want, same) {
			t.Errorf("%d bytes, seed %d, tail %v: %d lines, want %d\n%.300s\n%.300s", len(data), seed, tail, len(got), len(want), fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
		}
	})
}

// FuzzCompile: a pattern is refused, or small enough to be tried on a long line.
func FuzzCompile(f *testing.F) {
	for _, p := range []string{"", "a", "(", "(a{1000}){1000}", strings.Repeat("(", 2000), strings.Repeat("a", 20<<10), `\pL{500}`, "(?i)straße", "x*y*z*$", `\C`} {
		f.Add(p)
	}
	line := bytes.Repeat([]byte("aé"), 500)
	f.Fuzz(func(t *testing.T, pattern string) {
		re, err := search.Compile("grep", pattern)
		switch e := api.AsError(err); {
		case err == nil:
			re.Match(line)
			if len(pattern) > 16<<10 {
				t.Error("a pattern of that size was taken")
			}
		case e.Code != api.CodeInvalidParams || e.Details["field"] != "grep" || len(e.Message) > 1000:
			t.Errorf("%v, %v", err, e.Details)
		}
	})
}

// log is the output of a command, in records.
type log struct {
	chunks []link.Chunk
	bytes  []byte
}

// write adds a record.
func (l *log) write(stream, text string) {
	offset := int64(0)
	for _, c := range l.chunks {
		if c.Stream == stream {
			offset = c.Offset + c.Len
		}
	}
	l.chunks = append(l.chunks, link.Chunk{Seq: int64(len(l.chunks)) + 1, Stream: stream, Offset: offset, Len: int64(len(text))})
	l.bytes = append(l.bytes, text...)
}

// read reads a few records at a time.
func (l *log) read(p link.ReadParams) (link.ReadResult, []byte, error) {
	var r link.ReadResult
	at, begin, end := int64(0), int64(0), int64(0)
	for _, c := range l.chunks {
		if c.Seq > p.AfterSeq && len(r.Chunks) < 3 {
			if len(r.Chunks) == 0 {
				begin = at
			}
			r.Chunks, end = append(r.Chunks, c), at+c.Len
		}
		at += c.Len
	}
	return r, l.bytes[begin:max(begin, end)], nil
}

// found describes the result of a search.
func found(r link.MatchResult, body []byte) string {
	if r.Line == nil {
		return "nothing"
	}
	return fmt.Sprintf("%d %s@%d %q", r.Seq, r.Stream, r.Line.Offset, body)
}

// FuzzMatch checks the results of searches in one step and in several.
func FuzzMatch(f *testing.F) {
	f.Add("abc", "^abc$", uint64(1))
	f.Add("ab\ncd\nef", "^cde?f?$", uint64(2))
	f.Add("aaa\nbbb\naab\n", "b$", uint64(3))
	f.Add("q?\na question? yes\n", `question\?`, uint64(4))
	f.Add("00\n000000000000000\n0000000", "000000000", uint64(4))
	f.Fuzz(func(t *testing.T, text, pattern string, seed uint64) {
		re, err := search.Compile("output_match", pattern)
		if err != nil || len(text) > 2000 {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 2))
		var l log
		for rest := text; rest != ""; {
			n := 1 + rng.IntN(min(len(rest), 10))
			l.write([]string{api.EventStdout, api.EventStderr}[rng.IntN(2)], rest[:n])
			rest = rest[n:]
		}
		last := int64(len(l.chunks))
		p := link.MatchParams{Pattern: pattern, Until: last}
		r, body, err := search.Match(t.Context(), p, l.read)
		if err != nil {
			t.Fatal(err)
		}
		l.check(t, re, r, body)
		for p.Until = 0; r.Line == nil || p.Until == 0; p.Until += 1 + int64(rng.IntN(4)) {
			if r, body, err = search.Match(t.Context(), p, l.read); err != nil {
				t.Fatal(err)
			}
			if r.LastSeq >= last {
				break
			}
			p.Position = r.Position
		}
		l.check(t, re, r, body)
	})
}

// check checks the result of a search of the whole log: a line that was found is a line as it was
// after the record with its number; otherwise no line matches.
func (l *log) check(t *testing.T, re *regexp.Regexp, r link.MatchResult, body []byte) {
	t.Helper()
	streams, at := map[string][]byte{}, int64(0)
	for _, c := range l.chunks {
		if r.Line != nil && c.Seq > r.Seq {
			break
		}
		streams[c.Stream] = append(streams[c.Stream], l.bytes[at:at+c.Len]...)
		at += c.Len
	}
	if r.Line == nil {
		for name, text := range streams {
			for line := range bytes.SplitSeq(text, []byte("\n")) {
				if len(line) > 0 && re.Match(line) && re.Match(bytes.TrimSuffix(line, []byte("\r"))) {
					t.Errorf("%q of %s was not found", line, name)
				}
			}
		}
		return
	}
	text := streams[r.Stream]
	line, _, complete := bytes.Cut(text[r.Line.Offset:], []byte("\n"))
	if complete {
		line = bytes.TrimSuffix(line, []byte("\r"))
	}
	if !bytes.Equal(line, body) || !re.Match(body) || r.Line.Offset > 0 && text[r.Line.Offset-1] != '\n' {
		t.Errorf("%s, but the line is %q", found(r, body), line)
	}
}

// TestMatchWaits: a search that waits goes on until a line matches, the command ends, or its log
// is closed without an outcome; and it ends with its context.
func TestMatchWaits(t *testing.T) {
	var l log
	p := link.MatchParams{Pattern: "^two$", Wait: true}
	steps := []func(){func() { l.write(api.EventStdout, "one\nt") }, func() { l.write(api.EventStderr, "two") }, func() { l.write(api.EventStdout, "wo\n") }}
	r, body, err := search.Match(t.Context(), p, func(p link.ReadParams) (link.ReadResult, []byte, error) {
		if !p.Wait {
			t.Error("it does not wait")
		}
		if p.AfterSeq == int64(len(l.chunks)) {
			steps[0]()
			steps = steps[1:]
		}
		return l.read(p)
	})
	if got := found(r, body); got != `2 stderr@0 "two"` || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	r, body, err = search.Match(t.Context(), p, func(p link.ReadParams) (link.ReadResult, []byte, error) {
		r, body, err := l.read(p)
		r.Outcome, r.Seq = &api.ExecOutcome{ExitCode: 3}, 9
		return r, body, err
	})
	if r.Outcome == nil || r.ExitSeq != 9 || found(r, body) != `2 stderr@0 "two"` || err != nil {
		t.Errorf("%+v, %v", r, err)
	}
	p.Pattern = "none"
	if r, _, err = search.Match(t.Context(), p, l.read); r.Line != nil || r.Outcome != nil || r.LastSeq != 2 || err != nil {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err = search.Match(ctx, p, l.read); err != context.Canceled {
		t.Error(err)
	}
}
