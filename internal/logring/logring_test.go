package logring_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/logring"
)

// open returns a ring and a logger that writes to it and to the returned buffer.
func open() (*logring.Ring, *slog.Logger, *bytes.Buffer) {
	r, out := logring.New(), &bytes.Buffer{}
	return r, slog.New(r.Handler(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: slog.LevelInfo}))), out
}

// read returns the records of a stream that does not follow, as LEVEL TEXT NAME=VALUE….
func read(t *testing.T, r *logring.Ring, p api.SystemLogParams) (list []string, last int64) {
	t.Helper()
	p.NoFollow = true
	s := r.Stream(t.Context(), "log/1", p)
	for {
		ev, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == api.EventEnd {
			if _, err := s.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("after the end: %v", err)
			}
			return list, last
		}
		line := ev.Log.Level + " " + ev.Log.Text
		for _, f := range ev.Log.Fields {
			line += " " + f.Name + "=" + f.Value
		}
		list, last = append(list, line), ev.Seq
	}
}

func want(t *testing.T, got []string, lines ...string) {
	t.Helper()
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", lines) {
		t.Errorf("got  %q\nwant %q", got, lines)
	}
}

func TestRecordsAreKeptAndPassedOn(t *testing.T) {
	r, log, out := open()
	log.Debug("not written")
	log.With("session_id", "s-1").WithGroup("g").Info("created", "n", 1, slog.Group("h", "x", true))
	log.Warn("odd", "error", errors.New("no"))
	got, last := read(t, r, api.SystemLogParams{})
	want(t, got, "info created session_id=s-1 g.n=1 g.h.x=true", "warn odd error=no")
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Errorf("%d lines were passed on", n)
	}
	got, _ = read(t, r, api.SystemLogParams{Level: "warn"})
	want(t, got, "warn odd error=no")
	log.Error("bad")
	got, _ = read(t, r, api.SystemLogParams{AfterSeq: last})
	want(t, got, "error bad")
	got, _ = read(t, r, api.SystemLogParams{Limit: new(1)})
	want(t, got, "error bad")
	got, _ = read(t, r, api.SystemLogParams{Limit: new(0)})
	want(t, got)
	got, _ = read(t, logring.New(), api.SystemLogParams{AfterSeq: last})
	want(t, got)
}

// TestNumbersGrowOverRestarts: a reader of an earlier daemon gets everything of the next one.
func TestNumbersGrowOverRestarts(t *testing.T) {
	r, log, _ := open()
	log.Info("first")
	_, last := read(t, r, api.SystemLogParams{})
	r, log, _ = open()
	log.Info("second")
	got, _ := read(t, r, api.SystemLogParams{AfterSeq: last})
	want(t, got, "info second")
}

// TestBounds: the number of records, of fields, and the length of texts are limited.
func TestBounds(t *testing.T) {
	r, log, _ := open()
	for i := range api.MaxLogRecords + 5 {
		log.Info(fmt.Sprint(i))
	}
	var many []any
	for i := range 100 {
		many = append(many, fmt.Sprint("f", i), i)
	}
	log.Info(strings.Repeat("é", 1<<20), many...)
	got, _ := read(t, r, api.SystemLogParams{Limit: new(api.MaxLogRecords)})
	if len(got) != api.MaxLogRecords || got[0] != "info 6" {
		t.Errorf("%d records, the first is %s", len(got), got[0])
	}
	if n := len(got[len(got)-1]); n > 4096 {
		t.Errorf("a record has %d bytes", n)
	}
}

func TestSecretsAreNotKept(t *testing.T) {
	r, log, _ := open()
	log.Info("login", "token", "sesame", "Authorization", "sesame", "api.key", "sesame", "panic", "sesame", "exit_code", 3, "token_file", "")
	got, _ := read(t, r, api.SystemLogParams{})
	if strings.Contains(got[0], "sesame") || !strings.Contains(got[0], "exit_code=") {
		t.Error(got[0])
	}
}

// TestStreamFollows: a reader that waits gets the next record of its level, and its context ends it.
func TestStreamFollows(t *testing.T) {
	r, log, _ := open()
	ctx, cancel := context.WithCancel(t.Context())
	s := r.Stream(ctx, "log/1", api.SystemLogParams{Level: "error"})
	got := make(chan string)
	go func() {
		defer close(got)
		for {
			ev, err := s.Recv()
			if err != nil {
				return
			}
			got <- ev.Log.Text
		}
	}()
	log.Info("one")
	log.Error("two")
	if text := <-got; text != "two" {
		t.Error(text)
	}
	cancel()
	if text, more := <-got; more {
		t.Error(text)
	}
}
