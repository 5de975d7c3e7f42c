package wire_test

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/trl-dev/trl/api"
)

// viewer receives pushes of the stream of session.attach that is bound to name: for
// each line of what is wanted the next one, and for output as many as it takes, as where
// one piece ends is up to the kernel. Offsets and numbers must be without gaps. What else
// comes meanwhile is set aside for the sections that want it.
func (s *script) viewer(name string, want []string) {
	s.t.Helper()
	id := s.vars[name]
	if s.viewers[id] == nil {
		s.viewers[id] = &viewed{}
	}
	for _, line := range want {
		kind, rest, _ := strings.Cut(line, " ")
		if kind != api.EventOutput {
			got := s.nextPush(id, kind)
			if why := s.match(rest, got); why != "" {
				s.fatalf("%s\ngot  %s\nwant %s", why, got, rest)
			}
			continue
		}
		text, err := strconv.Unquote(rest)
		if err != nil {
			s.fatalf("%s: %s", line, err)
		}
		for joined := ""; joined != text; {
			got := s.nextPush(id, kind)
			var ev api.StreamEvent
			_ = json.Unmarshal([]byte(got), &ev)
			if joined += string(api.Data(ev.Data, ev.DataBase64)); !strings.HasPrefix(text, joined) {
				s.fatalf("got  output %q\nwant output %q", joined, text)
			}
		}
	}
}

// viewed is how far the pushes of a viewer have been received.
type viewed struct {
	seq    int64
	offset int64
}

// nextPush receives the next push of a viewer, which must be of that kind and follow the last one.
func (s *script) nextPush(id, kind string) string {
	s.t.Helper()
	line := s.next(func(line string) bool { return isPushOf(line, id) })
	v := s.viewers[id]
	var ev api.StreamEvent
	if err := json.Unmarshal([]byte(line), &ev); err != nil || ev.Type != kind || ev.Seq != v.seq+1 || ev.Offset == nil {
		s.fatalf("want push %d, %s with an offset; got %s (%v)", v.seq+1, kind, line, err)
	}
	// The first one tells where the viewer begins, and a snapshot where it goes on.
	if *ev.Offset != v.offset && v.seq > 0 && kind != api.EventSnapshot {
		s.fatalf("want offset %d, got %s", v.offset, line)
	}
	v.seq, v.offset = ev.Seq, *ev.Offset
	if kind == api.EventOutput {
		v.offset += int64(len(api.Data(ev.Data, ev.DataBase64)))
	}
	return line
}

func isPushOf(line, id string) bool {
	return strings.HasPrefix(line, `{"stream_id":`+strconv.Quote(id)+`,`)
}

// next receives the next line that is wanted now, and sets others aside.
func (s *script) next(wanted func(line string) bool) string {
	s.t.Helper()
	for i, line := range s.aside {
		if wanted(line) {
			s.aside = append(s.aside[:i:i], s.aside[i+1:]...)
			return line
		}
	}
	for {
		line := s.receive()
		if wanted(line) {
			return line
		}
		s.aside = append(s.aside, line)
	}
}

// forViewer reports whether a line is a push of a stream that a section looked at before,
// and that may go on at any time.
func (s *script) forViewer(line string) bool {
	for id := range s.viewers {
		if isPushOf(line, id) {
			return true
		}
	}
	for id := range s.told {
		if isPushOf(line, id) {
			return true
		}
	}
	return false
}
