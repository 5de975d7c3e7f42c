package cast_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trl-dev/trl/internal/terminal/cast"
)

var begun = time.Unix(1_700_000_000, 0)

func at(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }

func header() cast.Header {
	return cast.Header{
		Cols: 80, Rows: 24, Term: "xterm-256color", Time: begun, Title: `vim "x"`, Command: "vim x",
		Env: map[string]string{"SHELL": "/bin/sh", "TERM": "xterm-256color"},
	}
}

// written is what a Writer makes of some calls.
func written(t *testing.T, calls func(*cast.Writer)) string {
	t.Helper()
	var out bytes.Buffer
	w, err := cast.NewWriter(&out, header(), 0)
	if err != nil {
		t.Fatal(err)
	}
	calls(w)
	if err := w.Err(); err != nil {
		t.Fatal(err)
	}
	if w.Size() != int64(out.Len()) {
		t.Errorf("Size() = %d, written were %d", w.Size(), out.Len())
	}
	return out.String()
}

func readAll(t *testing.T, text string) (cast.Header, []cast.Event) {
	t.Helper()
	r, err := cast.NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var events []cast.Event
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.Header(), events
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	text := written(t, func(w *cast.Writer) {
		_ = w.Output(at(0), []byte("\x1b[1mhé\x7f\r\n\t\"\\"))
		_ = w.Input(at(500), []byte("ls\r"))
		_ = w.Resize(at(1500), 132, 50)
		_ = w.Marker(at(1500), "here")
		_ = w.Exit(at(2000), 3)
	})
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	want := []string{
		`[0.000000, "o", "\u001b[1mhé\u007f\r\n\t\"\\"]`, `[0.500000, "i", "ls\r"]`, `[1.000000, "r", "132x50"]`,
		`[0.000000, "m", "here"]`, `[0.500000, "x", "3"]`,
	}
	if got := strings.Join(lines[1:], "\n"); got != strings.Join(want, "\n") {
		t.Errorf("events:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
	var head map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &head); err != nil || head["version"] != 3.0 || head["timestamp"] != 1.7e9 {
		t.Errorf("header: %s", lines[0])
	}

	h, events := readAll(t, text)
	asWritten := header()
	asWritten.Version = 3
	if fmt.Sprint(h) != fmt.Sprint(asWritten) {
		t.Errorf("header %v, want %v", h, asWritten)
	}
	if len(events) != 5 || events[0].Data != "\x1b[1mhé\x7f\r\n\t\"\\" || events[4].At != 2*time.Second || events[4].Code != cast.Exit {
		t.Errorf("events: %q", events)
	}
	if cols, rows, err := events[2].Size(); cols != 132 || rows != 50 || err != nil {
		t.Errorf("Size() = %d, %d, %v", cols, rows, err)
	}
}

// Characters come whole wherever they were cut, what is no UTF-8 is replaced, and the
// beginning of a character waits for its own stream.
func TestEventsEndBetweenCharacters(t *testing.T) {
	whole := "a€𝄞\xff\xc3(é\xe2\x82"
	want := "a€𝄞\ufffd\ufffd(é\ufffd\ufffd"
	for cut := 0; cut <= len(whole); cut++ {
		text := written(t, func(w *cast.Writer) {
			_ = w.Output(at(0), []byte(whole[:cut]))
			_ = w.Input(at(1), []byte("ü"))
			_ = w.Output(at(2), []byte(whole[cut:]))
			_ = w.Exit(at(3), 0)
		})
		got := ""
		_, events := readAll(t, text)
		for _, e := range events {
			if e.Code == cast.Output {
				got += e.Data
			}
		}
		if got != want {
			t.Errorf("cut at %d: %q, want %q", cut, got, want)
		}
	}
}

// Many short intervals add up to the time that went by.
func TestRoundingDoesNotAddUp(t *testing.T) {
	text := written(t, func(w *cast.Writer) {
		for i := range 3000 {
			_ = w.Output(begun.Add(time.Duration(i)*333_333*time.Nanosecond), []byte("x"))
		}
	})
	_, events := readAll(t, text)
	if got, want := events[2999].At, 2999*333_333*time.Nanosecond; (got - want).Abs() > time.Microsecond {
		t.Errorf("the last is at %s, want %s", got, want)
	}
}

func TestLimitAndErrorsAreForGood(t *testing.T) {
	var out bytes.Buffer
	w, err := cast.NewWriter(&out, header(), 400)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		err = w.Output(at(0), []byte(strings.Repeat("x", 40)))
	}
	if !errors.Is(err, cast.ErrLimit) || out.Len() > 400 || !strings.HasSuffix(out.String(), "\n") {
		t.Errorf("%v with %d bytes", err, out.Len())
	}
	size := out.Len()
	if err := w.Marker(at(0), "m"); !errors.Is(err, cast.ErrLimit) || out.Len() != size {
		t.Errorf("a small event behind the limit: %v", err)
	}

	full := errors.New("disk full")
	w, _ = cast.NewWriter(&failing{left: 200, err: full}, header(), 0)
	for range 10 {
		_ = w.Output(at(0), []byte("xxxxxxxxx"))
	}
	if !errors.Is(w.Err(), full) {
		t.Errorf("Err() = %v", w.Err())
	}
}

type failing struct {
	left int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, f.err
	}
	return len(p), nil
}

func TestWriterIsSafeForConcurrentUse(t *testing.T) {
	text := written(t, func(w *cast.Writer) {
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				for i := range 100 {
					_ = w.Output(at(i), []byte("€"))
					_ = w.Input(at(i), []byte("x"))
				}
			})
		}
		wait.Wait()
	})
	if _, events := readAll(t, text); len(events) != 1600 {
		t.Errorf("%d events", len(events))
	}
}

func TestReadsVersion2(t *testing.T) {
	h, events := readAll(t, `{"version": 2, "width": 100, "height": 30, "timestamp": 1504467315, "idle_time_limit": 1.5, "env": {"TERM": "screen"}}
[0.25, "o", "a"]

[1.5, "i", "b"]
[1.0, "o", "c"]`)
	if h.Version != 2 || h.Cols != 100 || h.Rows != 30 || h.Term != "screen" || h.IdleLimit != 1500*time.Millisecond || h.Time.Unix() != 1504467315 {
		t.Errorf("header: %+v", h)
	}
	want := []cast.Event{{250 * time.Millisecond, "o", "a"}, {1500 * time.Millisecond, "i", "b"}, {1500 * time.Millisecond, "o", "c"}}
	if fmt.Sprint(events) != fmt.Sprint(want) {
		t.Errorf("events %v, want %v", events, want)
	}
}

func TestReadsCommentsUnknownCodesAndATornEnd(t *testing.T) {
	const head = `{"version":3,"term":{"cols":80,"rows":24}}` + "\n"
	_, events := readAll(t, head+"# a comment\n[1, \"z\", \"new\"]\n[1, \"o\", \"x\", 5]\n")
	if len(events) != 2 || events[1].At != 2*time.Second {
		t.Errorf("events %v", events)
	}
	for _, torn := range []string{`[1, "o", "hal`, "[", "\x00\x00\x00", `[1, "o"`} {
		r, err := cast.NewReader(strings.NewReader(head + "[1, \"o\", \"x\"]\n" + torn))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Next(); err != nil {
			t.Errorf("%q: %v", torn, err)
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) || !r.Truncated() {
			t.Errorf("%q: %v, truncated %v", torn, err, r.Truncated())
		}
	}
}

// A line that has an end and is no event is a mistake wherever it is. What is wrong is said
// in the words of the format.
func TestRefusesWhatIsNoEvent(t *testing.T) {
	const head = `{"version":3,"term":{"cols":80,"rows":24}}` + "\n"
	for line, want := range map[string]string{
		"[1, \"o\"\n[1, \"o\", \"x\"]\n": "line 2: not an event: ",
		"[1, \"o\", \"hal\n":             "line 2: not an event: ",
		"\x00\x00\x00\n":                 "line 2: not an event, which is a JSON array",
		"{\"a\": 1}\n":                   "line 2: not an event, which is a JSON array",
		"[1, \"o\"]\n":                   "line 2: not an event: has fewer than three parts",
		"[\"1\", \"o\", \"x\"]\n":        `line 2: not an event: its time is not a number`,
		"[1, 2, \"x\"]\n":                "line 2: not an event: its code is not a string",
		"[1, \"o\", {\"a\":1}]\n":        `line 2: not an event: its data is not a string`,
		"[1, \"o\", null]\n":             "line 2: not an event: its data is not a string",
	} {
		r, err := cast.NewReader(strings.NewReader(head + line))
		if err != nil {
			t.Fatal(err)
		}
		if e, err := r.Next(); err == nil || errors.Is(err, io.EOF) || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%q: %v, %v, want %s", line, e, err, want)
		}
	}
}

func TestRefusesWhatIsNoRecording(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "empty",
		"hello\nworld\n":              "not an asciicast",
		"[1, 2]\n":                    "not an asciicast: the first line is not a header, which is a JSON object",
		`{"version": "3"}`:            "not an asciicast: in the first line, version is of the wrong type: string",
		`{"version": 3, "term": []}`:  "not an asciicast: in the first line, term is of the wrong type: array",
		"{}\n":                        "no version",
		`{"version": 1, "width": 80}`: "version 1: only 2 and 3",
		"{\n \"version\": 1,\n \"width\": 80\n}\n": "version 1: only 2 and 3",
		`{"version": 4}`: "version 4: only 2 and 3",
		`{"version": 2}`: "size of 0x0",
		`{"version": 3, "term": {"cols": -1, "rows": 24}}`: "size of -1x24",
	} {
		if _, err := cast.NewReader(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestThemes: the colours of a terminal are read from both versions and written again. What
// is no theme is left out.
func TestThemes(t *testing.T) {
	const colors = `{"fg":"#111111","bg":"#222222","palette":"#000001:#000002"}`
	for name, c := range map[string]struct{ header, want string }{
		"2":       {`{"version":2,"width":80,"height":24,"theme":` + colors + `}`, `"theme":` + colors},
		"3":       {`{"version":3,"term":{"cols":80,"rows":24,"theme":` + colors + `}}`, `"theme":` + colors},
		"none":    {`{"version":3,"term":{"cols":80,"rows":24}}`, `"rows":24}}`},
		"null":    {`{"version":3,"term":{"cols":80,"rows":24,"theme":null}}`, `"rows":24}}`},
		"a word":  {`{"version":3,"term":{"cols":80,"rows":24,"theme":"dark"}}`, `"rows":24}}`},
		"numbers": {`{"version":2,"width":80,"height":24,"theme":{"fg":1}}`, `"rows":24}}`},
	} {
		r, err := cast.NewReader(strings.NewReader(c.header + "\n"))
		if err != nil {
			t.Errorf("%s: %s", name, err)
			continue
		}
		var b bytes.Buffer
		if err := r.Copy(&b); err != nil || !strings.Contains(b.String(), c.want) {
			t.Errorf("%s: %s, %v, want %s", name, b.String(), err, c.want)
		}
	}
}
