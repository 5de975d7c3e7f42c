package session_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/service"
	"github.com/trl-dev/trl/internal/service/servicetest"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestSearchIsBesideTheRunner: the output does not cross the link for a search.
func TestSearchIsBesideTheRunner(t *testing.T) {
	rt := &sessiontest.Runtime{Command: sessiontest.Writer(time.Second, 4, "oone\n", "otwo\n")}
	servicetest.In(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		session := servicetest.Create(t, s, api.SessionCreateParams{})
		x, err := s.ExecStart(t.Context(), api.ExecParams{SessionID: session, Command: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := s.ExecWait(t.Context(), api.ExecWaitParams{ExecIDs: []string{x.ExecID}, OutputMatch: "two"}); err != nil || len(r.Happened) != 1 || r.Happened[0].Match.Text != "two" {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err := s.ExecOutput(t.Context(), api.ExecOutputParams{ExecID: x.ExecID, Grep: "t"}); err != nil || len(r.Lines) != 1 || r.Lines[0].Text != "two" {
			t.Errorf("%+v, %v", r, err)
		}
		asked := rt.Runner(session).Asked
		for name, want := range map[string]bool{link.ExecGrep.Name: true, link.ExecMatch.Name: true, link.ExecRead.Name: false, link.ExecOutput.Name: false} {
			if got := asked(name); got > 0 != want {
				t.Errorf("%s was called %d times", name, got)
			}
		}
	})
}

func num(n int64) *int64 { return &n }

// showOutput writes an answer the way a test can read it.
func showOutput(r api.ExecOutputResult) string {
	text := fmt.Sprintf("%d-%d/%d %q", r.Offset, r.NextOffset, r.TotalBytes, api.Data(r.Data, r.DataBase64))
	if r.Gap != nil {
		text += fmt.Sprintf(" gap %d-%d", r.Gap.From, r.Gap.To)
	}
	if r.DataBase64 != "" {
		text += " bytes"
	}
	if r.Complete {
		text += " complete"
	}
	for _, l := range r.Lines {
		text += fmt.Sprintf(" %d:%s", l.Offset, api.Data(l.Text, l.TextBase64))
		if l.Truncated {
			text += "..."
		}
	}
	return text
}

func TestOutput(t *testing.T) {
	euro := []string{"oa€b", "eerr"}
	gap := []string{"oab", "gap", "ocd"}
	for _, c := range []struct {
		name   string
		ended  bool
		writes []string
		p      api.ExecOutputParams
		want   string
	}{
		{"all", true, euro, api.ExecOutputParams{}, `0-5/5 "a€b" complete`},
		{"stderr", true, euro, api.ExecOutputParams{Stream: "stderr"}, `0-3/3 "err" complete`},
		{"running", false, euro, api.ExecOutputParams{}, `0-5/5 "a€b"`},
		{"from an offset", true, euro, api.ExecOutputParams{Offset: 4}, `4-5/5 "b" complete`},
		{"at the end", true, euro, api.ExecOutputParams{Offset: 5}, `5-5/5 "" complete`},
		{"nothing", true, euro, api.ExecOutputParams{Limit: num(0)}, `0-0/5 ""`},
		{"limit", true, euro, api.ExecOutputParams{Limit: num(4)}, `0-4/5 "a€"`},
		{"limit inside a character", true, euro, api.ExecOutputParams{Limit: num(3)}, `0-1/5 "a"`},
		{"limit smaller than a character", true, euro, api.ExecOutputParams{Offset: 1, Limit: num(2)}, `1-3/5 "\xe2\x82" bytes`},
		{"from inside a character", true, euro, api.ExecOutputParams{Offset: 2}, `2-5/5 "\x82\xacb" bytes complete`},
		{"tail", true, euro, api.ExecOutputParams{Tail: num(4)}, `1-5/5 "€b" complete`},
		{"tail inside a character", true, euro, api.ExecOutputParams{Tail: num(3)}, `4-5/5 "b" complete`},
		{"tail longer than all", true, euro, api.ExecOutputParams{Tail: num(99)}, `0-5/5 "a€b" complete`},
		{"tail of nothing", true, euro, api.ExecOutputParams{Tail: num(0)}, `5-5/5 "" complete`},
		{"torn end of a running command", false, []string{"oab\xe2\x82"}, api.ExecOutputParams{}, `0-2/4 "ab"`},
		{"torn end for good", true, []string{"oab\xe2\x82"}, api.ExecOutputParams{}, `0-4/4 "ab\xe2\x82" bytes complete`},
		{"torn end and nothing else", false, []string{"o\xe2\x82"}, api.ExecOutputParams{}, `0-2/2 "\xe2\x82" bytes`},
		{"binary", false, []string{"o\xff\xfea\xe2\x82"}, api.ExecOutputParams{}, `0-5/5 "\xff\xfea\xe2\x82" bytes`},
		{"until a gap", true, gap, api.ExecOutputParams{}, `0-2/104 "ab"`},
		{"behind a gap", true, gap, api.ExecOutputParams{Offset: 2}, `102-104/104 "cd" gap 2-102 complete`},
		{"inside a gap", true, gap, api.ExecOutputParams{Offset: 50, Limit: num(1)}, `102-103/104 "c" gap 50-102`},
		{"nothing there", true, nil, api.ExecOutputParams{}, `0-0/0 "" complete`},
	} {
		t.Run(c.name, func(t *testing.T) {
			servicetest.InOutput(t, c.ended, c.writes, func(t *testing.T, s *service.Service, id string) {
				c.p.ExecID = id
				r, err := s.ExecOutput(t.Context(), c.p)
				if err != nil {
					t.Fatal(err)
				}
				if got := showOutput(r); got != c.want || r.ExecID != id || r.Lines != nil {
					t.Errorf("got  %s\nwant %s\n%+v", got, c.want, r)
				}
			})
		})
	}
}

func TestOutputErrors(t *testing.T) {
	servicetest.InOutput(t, true, []string{"oabc"}, func(t *testing.T, s *service.Service, id string) {
		for _, c := range []struct {
			p    api.ExecOutputParams
			code api.Code
			text string
		}{
			{api.ExecOutputParams{}, api.CodeInvalidParams, "params.exec_id: is required"},
			{api.ExecOutputParams{ExecID: "x-0000000000-1"}, api.CodeExecNotFound, "not found"},
			{api.ExecOutputParams{ExecID: id + "9"}, api.CodeExecNotFound, "not found"},
			{api.ExecOutputParams{ExecID: id, Offset: 4}, api.CodeInvalidParams, "params.offset: 4"},
			{api.ExecOutputParams{ExecID: id, Grep: "a("}, api.CodeInvalidParams, "params.grep: error parsing regexp: missing closing )"},
			{api.ExecOutputParams{ExecID: id, Grep: strings.Repeat("(", 2000) + strings.Repeat(")", 2000)}, api.CodeInvalidParams, "params.grep: error parsing regexp: expression nests too deeply"},
			{api.ExecOutputParams{ExecID: id, Grep: strings.Repeat("a", 1<<20)}, api.CodeInvalidParams, "params.grep: has 1048576 bytes"},
			{api.ExecOutputParams{ExecID: id, Grep: "((a?){30}b){30}"}, api.CodeInvalidParams, "params.grep: is too large"},
			{api.ExecOutputParams{ExecID: id, Grep: strings.Repeat("a{1000}", 2000)}, api.CodeInvalidParams, "params.grep: is too large"},
			{api.ExecOutputParams{ExecID: id, Stream: "both"}, api.CodeInvalidParams, "params.stream"},
		} {
			_, err := s.ExecOutput(t.Context(), c.p)
			testkit.WantError(t, err, c.code, c.text)
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		}
		if r, err := s.ExecOutput(t.Context(), api.ExecOutputParams{ExecID: id, Grep: `^\d{0,400}\p{L}{400}$`}); err != nil || r.Lines == nil || len(r.Lines) > 0 {
			t.Errorf("a pattern that matches nothing: %+v, %v", r, err)
		}
		_, err := s.ReadOutput(t.Context(), api.ExecOutputParams{ExecID: id, Grep: "a"}, false)
		testkit.WantError(t, err, api.CodeInvalidParams, "params.grep")
	})
}

func TestReadOutputWaits(t *testing.T) {
	rt := &sessiontest.Runtime{Command: sessiontest.Writer(time.Second, 0, "oa", "o\xe2", "o\x82\xac")}
	servicetest.In(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		info, err := s.ExecStart(t.Context(), api.ExecParams{SessionID: servicetest.Create(t, s, api.SessionCreateParams{}), Command: "x"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		p := api.ExecOutputParams{ExecID: info.ExecID}
		for {
			r, err := s.ReadOutput(t.Context(), p, true)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%d-%d %q %v", r.Offset, r.NextOffset, r.Bytes, r.Complete))
			if p.Offset = r.NextOffset; r.Complete {
				break
			}
		}
		servicetest.WantLines(t, got, `0-1 "a" false`, `1-2 "\xe2" false`, `2-4 "\x82\xac" false`, `4-4 "" true`)
	})
	servicetest.InOutput(t, false, []string{"oa"}, func(t *testing.T, s *service.Service, id string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.ReadOutput(ctx, api.ExecOutputParams{ExecID: id, Offset: 1}, true); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("given up: %v", err)
		}
	})
}

func TestGrep(t *testing.T) {
	long := strings.Repeat("x", 70<<10)
	for _, c := range []struct {
		name   string
		ended  bool
		writes []string
		p      api.ExecOutputParams
		want   string
	}{
		{"lines", true, []string{"one\ntwo\nthree\n"}, api.ExecOutputParams{Grep: "t"}, `0-14/14 "" complete 4:two 8:three`},
		{"no match", true, []string{"one\ntwo\n"}, api.ExecOutputParams{Grep: "^w"}, `0-8/8 "" complete`},
		{"the ends of lines", true, []string{"one\r\ntone\r\n"}, api.ExecOutputParams{Grep: "one$"}, `0-11/11 "" complete 0:one 5:tone`},
		{"across records", true, []string{"on", "e\ntw", "o\n"}, api.ExecOutputParams{Grep: "one|two"}, `0-8/8 "" complete 0:one 4:two`},
		{"last line without an end", true, []string{"one\ntwo"}, api.ExecOutputParams{Grep: "two"}, `0-7/7 "" complete 4:two`},
		{"last line that may go on", false, []string{"one\ntwo"}, api.ExecOutputParams{Grep: "o"}, `0-4/7 "" 0:one`},
		{"from an offset", true, []string{"one\ntwo\n"}, api.ExecOutputParams{Grep: "o", Offset: 4}, `4-8/8 "" complete 4:two`},
		{"tail", true, []string{"one\ntwo\none\n"}, api.ExecOutputParams{Grep: "o", Tail: num(8)}, `4-12/12 "" complete 4:two 8:one`},
		{"tail inside a line", true, []string{"one\ntwo\n"}, api.ExecOutputParams{Grep: "o", Tail: num(6)}, `2-8/8 "" complete 4:two`},
		{"limit", true, []string{"aa\nab\nac\n"}, api.ExecOutputParams{Grep: "a", Limit: num(5)}, `0-6/9 "" 0:aa 3:ab`},
		{"limit is a line", true, []string{"aa\nab\nac\n"}, api.ExecOutputParams{Grep: "a", Limit: num(2)}, `0-3/9 "" 0:aa`},
		{"limit smaller than a line", true, []string{"aéé\nb\n"}, api.ExecOutputParams{Grep: "a", Limit: num(2)}, `0-8/8 "" complete 0:a...`},
		{"limit of nothing", true, []string{"b\na\n"}, api.ExecOutputParams{Grep: "a", Limit: num(0)}, `0-2/4 ""`},
		{"bytes", true, []string{"\xffa\nb\n"}, api.ExecOutputParams{Grep: "a"}, "0-5/5 \"\" complete 0:\xffa"},
		{"gap", true, []string{"oab\noa", "gap", "oa\noac\n"}, api.ExecOutputParams{Grep: "a"}, `0-111/111 "" gap 5-105 complete 0:ab 3:oa 105:a 107:oac`},
		{"empty lines", true, []string{"\n\na\n"}, api.ExecOutputParams{Grep: "^$"}, `0-4/4 "" complete 0: 1:`},
		{"long line is matched in its beginning", true, []string{long + "END\nEND\n"}, api.ExecOutputParams{Grep: "END"}, fmt.Sprintf(`0-%d/%d "" complete %d:END`, 70<<10+8, 70<<10+8, 70<<10+4)},
		{"long line is cut", true, []string{"S" + long + "\n"}, api.ExecOutputParams{Grep: "^S"}, fmt.Sprintf(`0-%d/%d "" complete 0:S%s...`, 70<<10+2, 70<<10+2, long[:64<<10-1])},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := range c.writes {
				if c.name != "gap" {
					c.writes[i] = "o" + c.writes[i]
				}
			}
			servicetest.InOutput(t, c.ended, c.writes, func(t *testing.T, s *service.Service, id string) {
				c.p.ExecID = id
				r, err := s.ExecOutput(t.Context(), c.p)
				if err != nil {
					t.Fatal(err)
				}
				if got := showOutput(r); got != c.want {
					t.Errorf("got  %.300s\nwant %.300s", got, c.want)
				}
			})
		})
	}
}

// TestOutputGoesOn reads random output in random pieces, with next_offset: the pieces are
// whole characters and join to the same text; and the lines are those that a simple
// search finds.
func TestOutputGoesOn(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		var text strings.Builder
		for range 2000 {
			text.WriteString([]string{"a", "é", "€", "😀", "\n", "line ", "\r\n"}[rng.IntN(7)])
		}
		var writes []string
		for rest := text.String(); rest != ""; {
			n := min(len(rest), 1+rng.IntN(900))
			writes, rest = append(writes, "o"+rest[:n]), rest[n:]
		}
		servicetest.InOutput(t, true, writes, func(t *testing.T, s *service.Service, id string) {
			var got strings.Builder
			for p := (api.ExecOutputParams{ExecID: id}); ; {
				p.Limit = num(int64(4 + rng.IntN(500)))
				r, err := s.ExecOutput(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				if r.Offset != p.Offset || r.DataBase64 != "" || !utf8.ValidString(r.Data) || int64(len(r.Data)) > *p.Limit {
					t.Fatalf("%+v for %+v", r, p)
				}
				got.WriteString(r.Data)
				if p.Offset = r.NextOffset; r.Complete {
					break
				}
			}
			if got.String() != text.String() {
				t.Fatal("not the same text")
			}

			pattern := regexp.MustCompile("a.*€|^line")
			var want, lines []string
			for _, l := range strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n") {
				if l = strings.TrimSuffix(l, "\r"); pattern.MatchString(l) {
					want = append(want, l)
				}
			}
			for p := (api.ExecOutputParams{ExecID: id, Grep: pattern.String()}); ; {
				p.Limit = num(int64(200 + rng.IntN(500)))
				r, err := s.ExecOutput(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range r.Lines {
					if !strings.HasPrefix(text.String()[l.Offset:], l.Text) {
						t.Fatalf("%q is not at %d", l.Text, l.Offset)
					}
					lines = append(lines, l.Text)
				}
				if p.Offset = r.NextOffset; r.Complete {
					break
				}
			}
			if strings.Join(lines, "\n") != strings.Join(want, "\n") {
				t.Fatalf("%d lines, want %d", len(lines), len(want))
			}
		})
	}
}
