package service_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/service"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
)

// show writes an event the way a test can read it.
func show(ev api.StreamEvent) string {
	switch ev.Type {
	case api.EventExit:
		return fmt.Sprintf("%d exit %d", ev.Seq, ev.ExitCode)
	case api.EventGap:
		return fmt.Sprintf("%d gap %s %d-%d", ev.Seq, ev.Stream, *ev.From, *ev.To)
	}
	return fmt.Sprintf("%d %s@%d %q", ev.Seq, ev.Type, *ev.Offset, api.Data(ev.Data, ev.DataBase64))
}

func TestStreamPushes(t *testing.T) {
	const pause = "" // stands for a pause in which held back bytes are given up
	for _, c := range []struct {
		name   string
		writes []string // with o or e in front; gap
		want   []string
	}{
		{"text", []string{"oa", "eb", "oc"}, []string{`1 stdout@0 "a"`, `2 stderr@0 "b"`, `3 stdout@1 "c"`, "4 exit 5"}},
		{"nothing", nil, []string{"1 exit 5"}},
		{"torn character", []string{"oa\xe2\x82", "o\xacb"}, []string{`1 stdout@0 "a"`, `2 stdout@1 "€b"`, "3 exit 5"}},
		{"torn twice", []string{"o\xf0", "o\x9f", "o\x98\x80"}, []string{`3 stdout@0 "😀"`, "4 exit 5"}},
		{"the other stream goes on", []string{"o\xe2\x82", "eb", "o\xac"}, []string{`2 stderr@0 "b"`, `3 stdout@0 "€"`, "4 exit 5"}},
		{"the rest never comes", []string{"oa\xe2\x82"}, []string{`1 stdout@0 "a"`, `1 stdout@1 "\xe2\x82"`, "2 exit 5"}},
		{"the rest comes too late", []string{"oa\xe2", pause, "o\x82\xac"}, []string{`1 stdout@0 "a"`, `1 stdout@1 "\xe2"`, `2 stdout@2 "\x82\xac"`, "3 exit 5"}},
		{"both held", []string{"o\xe2", "e\xe2", pause, "ob"}, []string{`2 stdout@0 "\xe2"`, `2 stderr@0 "\xe2"`, `3 stdout@1 "b"`, "4 exit 5"}},
		{"never was a character", []string{"o\xff\xfe", "oa"}, []string{`1 stdout@0 "\xff\xfe"`, `2 stdout@2 "a"`, "3 exit 5"}},
		{"gap", []string{"oa\xe2", "gap", "ob"}, []string{`1 stdout@0 "a"`, `1 stdout@1 "\xe2"`, "2 gap stdout 2-102", `3 stdout@102 "b"`, "4 exit 5"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, slow := range []bool{false, true} {
				rt := &sessiontest.Runtime{Command: func(_ context.Context, x *sessiontest.Exec) int {
					for _, w := range c.writes {
						switch {
						case w == pause:
							time.Sleep(51 * time.Millisecond)
						case w == "gap":
							x.Gap(100, 1)
						case w[0] == 'o':
							x.Stdout(w[1:])
						default:
							x.Stderr(w[1:])
						}
						if slow { // each is read before the next comes
							time.Sleep(time.Millisecond)
						}
					}
					return 5
				}}
				in(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
					st, err := s.ExecStream(t.Context(), api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: create(t, s, api.SessionCreateParams{}), Command: "x"}})
					if err != nil {
						t.Fatal(err)
					}
					defer st.Close()
					var got []string
					for {
						ev, err := st.Recv()
						if err == io.EOF {
							break
						}
						if err != nil {
							t.Fatal(err)
						}
						if ev.StreamID != st.Start().StreamID {
							t.Errorf("stream_id = %q", ev.StreamID)
						}
						got = append(got, show(ev))
					}
					if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
						t.Errorf("slow %v: got\n%s\nwant\n%s", slow, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
					}
				})
			}
		})
	}
}

// TestStreamIsExact cuts text anywhere: what arrives is the same bytes, in order, and
// every push is whole characters.
func TestStreamIsExact(t *testing.T) {
	text := strings.Repeat("aé€😀\n", 500)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var cuts []string
		for rest := text; rest != ""; {
			n := min(len(rest), 1+rng.IntN(9))
			cuts, rest = append(cuts, rest[:n]), rest[n:]
		}
		rt := &sessiontest.Runtime{Command: func(_ context.Context, x *sessiontest.Exec) int {
			for _, c := range cuts {
				x.Stdout(c)
			}
			return 0
		}}
		in(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
			st, err := s.ExecStream(t.Context(), api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: create(t, s, api.SessionCreateParams{}), Command: "x"}})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			var got strings.Builder
			seq := int64(0)
			for {
				ev, err := st.Recv()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if ev.Seq < seq {
					t.Fatalf("seq %d after %d", ev.Seq, seq)
				}
				seq = ev.Seq
				if ev.Type == api.EventStdout {
					if *ev.Offset != int64(got.Len()) || ev.DataBase64 != "" || !utf8.ValidString(ev.Data) {
						t.Fatalf("at %d: %s", got.Len(), show(ev))
					}
					got.WriteString(ev.Data)
				}
			}
			if got.String() != text {
				t.Fatal("not the same text")
			}
		})
	}
}

func TestStreamThatIsGivenUp(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name   string
		detach *bool
		leave  func(st api.Stream, gone func())
		want   api.SessionState
	}{
		{"closed", nil, func(st api.Stream, _ func()) { st.Close() }, api.SessionRunning},
		{"connection gone", &yes, func(_ api.Stream, gone func()) { gone() }, api.SessionRunning},
		{"attached and closed", &no, func(st api.Stream, _ func()) { st.Close() }, api.SessionIdle},
		{"attached and connection gone", &no, func(_ api.Stream, gone func()) { gone() }, api.SessionIdle},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, &sessiontest.Runtime{Command: hang}, func(t *testing.T, s *service.Service, r *session.Registry) {
				ctx, gone := context.WithCancel(t.Context())
				defer gone()
				id := create(t, s, api.SessionCreateParams{})
				st, err := s.ExecStream(ctx, api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: id, Command: "hang", Detach: c.detach}})
				if err != nil {
					t.Fatal(err)
				}
				failed := make(chan error, 1)
				go func() {
					_, err := st.Recv()
					failed <- err
				}()
				synctest.Wait()
				c.leave(st, gone)
				if err := <-failed; !errors.Is(err, context.Canceled) {
					t.Errorf("recv: %v", err)
				}
				synctest.Wait()
				found, _ := r.Get(id)
				if got := found.Info().State; got != c.want {
					t.Errorf("session is %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestStreamOfASessionThatDies(t *testing.T) {
	rt := &sessiontest.Runtime{Command: hang}
	in(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		id := create(t, s, api.SessionCreateParams{Name: "build"})
		st, err := s.ExecStream(t.Context(), api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: id, Command: "hang"}})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		failed := make(chan error, 1)
		go func() {
			_, err := st.Recv()
			failed <- err
		}()
		synctest.Wait()
		rt.Runner(id).Crash("killed by SIGKILL")
		wantError(t, <-failed, api.CodeSessionTerminated, `session "build": has ended: its runner died`)
	})
}
