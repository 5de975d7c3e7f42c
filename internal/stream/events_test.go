package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/journal"
	"github.com/trl-dev/trl/internal/service"
	"github.com/trl-dev/trl/internal/service/servicetest"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

// take returns the next n pushes of a subscription.
func take(t *testing.T, st api.Stream, n int) []string {
	t.Helper()
	var got []string
	for range n {
		ev, err := st.Recv()
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprint(ev.Seq, " ", ev.Type)
		switch {
		case ev.Type == api.EventMissed:
			line += fmt.Sprintf(" %d-%d", *ev.From, *ev.To)
		case ev.At == nil || ev.SessionID == "" || ev.StreamID != st.Start().StreamID:
			t.Errorf("%+v", ev)
		default:
			line += " " + ev.Name
		}
		if ev.ExecOutcome != nil {
			line += fmt.Sprint(" code ", ev.ExitCode)
		}
		got = append(got, line)
	}
	return got
}

func subscribe(t *testing.T, s api.Service, p api.EventSubscribeParams) api.Stream {
	t.Helper()
	st, err := s.EventSubscribe(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

func TestSubscribe(t *testing.T) {
	servicetest.In(t, &sessiontest.Runtime{Command: sessiontest.Script}, func(t *testing.T, s *service.Service, r *session.Registry) {
		a := servicetest.Create(t, s, api.SessionCreateParams{Name: "a"})
		live := subscribe(t, s, api.EventSubscribeParams{})
		if live.Start().Seq != 1 {
			t.Errorf("start = %+v", live.Start())
		}
		b := servicetest.Create(t, s, api.SessionCreateParams{Name: "b"})
		if _, err := s.ExecRun(t.Context(), api.ExecParams{SessionID: "a", Command: "0"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := s.SessionDestroy(t.Context(), api.SessionDestroyParams{SessionID: "b"}); err != nil {
			t.Fatal(err)
		}
		whole := []string{"1 session.created a", "2 session.created b", "3 session.running a", "4 exec.running a", "5 session.idle a", "6 exec.exited a code 9", "7 exec.closed a", "8 session.terminated b"}
		servicetest.WantLines(t, take(t, live, 7), whole[1:]...)
		for after := range int64(8) {
			servicetest.WantLines(t, take(t, subscribe(t, s, api.EventSubscribeParams{AfterSeq: &after}), 8-int(after)), whole[after:]...)
		}
		zero := int64(0)
		for _, c := range []struct {
			p    api.EventSubscribeParams
			want []string
		}{
			{api.EventSubscribeParams{SessionID: "a", Types: []string{"session"}}, []string{whole[0], whole[2], whole[4]}},
			{api.EventSubscribeParams{SessionID: a, Types: []string{"exec"}}, []string{whole[3], whole[5], whole[6]}},
			{api.EventSubscribeParams{SessionID: b}, []string{whole[1], whole[7]}},
			{api.EventSubscribeParams{SessionID: "b"}, []string{whole[1], whole[7]}}, // it has ended, but is still known
			{api.EventSubscribeParams{Types: []string{"exec.exited", "session.terminated"}}, []string{whole[5], whole[7]}},
		} {
			c.p.AfterSeq = &zero
			servicetest.WantLines(t, take(t, subscribe(t, s, c.p), len(c.want)), c.want...)
		}
		for _, c := range []struct {
			p    api.EventSubscribeParams
			code api.Code
			text string
		}{
			{api.EventSubscribeParams{AfterSeq: new(int64(9))}, api.CodeInvalidParams, "params.after_seq: 9 is beyond the last event, which is 8"},
			{api.EventSubscribeParams{SessionID: "nobody"}, api.CodeSessionNotFound, `session "nobody": not found`},
			{api.EventSubscribeParams{Types: []string{"exec.born"}}, api.CodeInvalidParams, "params.types"},
		} {
			_, err := s.EventSubscribe(t.Context(), c.p)
			testkit.WantError(t, err, c.code, c.text)
		}
	})
}

// TestSubscriptionIsGivenUp: a Recv that waits ends with the caller.
func TestSubscriptionIsGivenUp(t *testing.T) {
	servicetest.In(t, &sessiontest.Runtime{}, func(t *testing.T, s *service.Service, _ *session.Registry) {
		ctx, gone := context.WithCancel(t.Context())
		st, err := s.EventSubscribe(ctx, api.EventSubscribeParams{})
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := st.Recv()
			failed <- err
		}()
		synctest.Wait()
		gone()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("recv: %v", err)
		}
	})
}

// TestSlowSubscriber: a slow subscriber gets the bounds of the events that it missed. The journal has
// dropped many events.
func TestSlowSubscriber(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	var text strings.Builder
	for i := range 14_000 {
		state := []string{"created", "running", "idle"}[min(i, 1+i%2)]
		fmt.Fprintf(&text, `{"seq":%d,"type":"session.%s","at":"2026-01-02T03:04:05Z","session_id":"s-0123456789","name":"a"}`+"\n", i+1, state)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	servicetest.InWith(t, session.Config{Journal: j}, &sessiontest.Runtime{}, func(t *testing.T, s *service.Service, r *session.Registry) {
		slow := subscribe(t, s, api.EventSubscribeParams{AfterSeq: new(int64(2)), Types: []string{"session.created"}})
		missed := take(t, slow, 1)[0]
		var seq, from, to int64
		if _, err := fmt.Sscanf(missed, "%d missed %d-%d", &seq, &from, &to); err != nil || from != 3 || to < 1000 || to > 4001 || seq != to-1 {
			t.Fatalf("%s: %v", missed, err)
		}
		again := subscribe(t, s, api.EventSubscribeParams{AfterSeq: &seq})
		if got := take(t, again, 1)[0]; !strings.HasPrefix(got, fmt.Sprint(to, " ")) {
			t.Errorf("behind what was missed: %s, want %d", got, to)
		}
		servicetest.Create(t, s, api.SessionCreateParams{Name: "b"})
		got := take(t, slow, 1)[0]
		for strings.Contains(got, "missed") { // it was slow again
			got = take(t, slow, 1)[0]
		}
		servicetest.WantLines(t, []string{got}, fmt.Sprint(r.Journal().Last(), " session.created b"))
	})
}
