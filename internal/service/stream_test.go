package service_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// all returns the pushes of a stream until it ends.
func all(t *testing.T, st api.Stream) []string {
	t.Helper()
	defer st.Close()
	var got []string
	for {
		ev, err := st.Recv()
		if err == io.EOF {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.StreamID != st.Start().StreamID {
			t.Errorf("stream_id = %q, want %q", ev.StreamID, st.Start().StreamID)
		}
		got = append(got, show(ev))
	}
}

// inBytes reads a stream as those do who take its output as bytes beside the pushes.
type inBytes struct{ api.ByteStream }

func (b inBytes) Recv() (api.StreamEvent, error) {
	ev, data, err := b.RecvBytes()
	ev.Data, ev.DataBase64 = api.Text(data)
	return ev, err
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// writer is a command that writes what it is told, each with o or e in front, or gap.
func writer(pause time.Duration, code int, writes ...string) func(context.Context, *sessiontest.Exec) int {
	return func(_ context.Context, x *sessiontest.Exec) int {
		for _, w := range writes {
			switch {
			case w == "gap":
				x.Gap(100, 1)
			case w[0] == 'o':
				x.Stdout(w[1:])
			default:
				x.Stderr(w[1:])
			}
			time.Sleep(pause)
		}
		return code
	}
}

func stream(t *testing.T, s api.Service, p api.ExecStreamParams) api.Stream {
	t.Helper()
	st, err := s.ExecStream(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func started(session string) api.ExecStreamParams {
	return api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: session, Command: "x"}}
}

func TestStreamPushes(t *testing.T) {
	for _, c := range []struct {
		name   string
		writes []string
		want   []string
		joined []string // what comes at once, for who takes bytes; nil: the same
	}{
		{"text", []string{"oa", "eb", "oc"}, []string{`1 stdout@0 "a"`, `2 stderr@0 "b"`, `3 stdout@1 "c"`, "4 exit 5"}, nil},
		{"nothing", nil, []string{"1 exit 5"}, nil},
		{"bytes", []string{"o\xff\xfe", "oa"}, []string{`1 stdout@0 "\xff\xfe"`, `2 stdout@2 "a"`, "3 exit 5"}, []string{`2 stdout@0 "\xff\xfea"`, "3 exit 5"}},
		{"gap", []string{"oa", "gap", "ob"}, []string{`1 stdout@0 "a"`, "2 gap stdout 1-101", `3 stdout@101 "b"`, "4 exit 5"}, nil},
		{"both", []string{"oa", "ob", "ec", "ed", "oe", "gap", "of", "og"},
			[]string{`1 stdout@0 "a"`, `2 stdout@1 "b"`, `3 stderr@0 "c"`, `4 stderr@1 "d"`, `5 stdout@2 "e"`, "6 gap stdout 3-103", `7 stdout@103 "f"`, `8 stdout@104 "g"`, "9 exit 5"},
			[]string{`2 stdout@0 "ab"`, `4 stderr@0 "cd"`, `5 stdout@2 "e"`, "6 gap stdout 3-103", `8 stdout@103 "fg"`, "9 exit 5"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, pause := range []time.Duration{0, time.Millisecond} { // with it, each is read before the next comes
				rt := &sessiontest.Runtime{Command: writer(pause, 5, c.writes...)}
				in(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
					id := create(t, s, api.SessionCreateParams{})
					wantLines(t, all(t, stream(t, s, started(id))), c.want...)
					want := c.want
					if pause == 0 && c.joined != nil {
						want = c.joined
					}
					wantLines(t, all(t, inBytes{stream(t, s, started(id)).(api.ByteStream)}), want...)
				})
			}
		})
	}
}

// TestReattach reads the same command again, from anywhere.
func TestReattach(t *testing.T) {
	writes := []string{"oab", "exy", "ocd", "gap", "oef"}
	rt := &sessiontest.Runtime{Command: writer(time.Second, 3, writes...)}
	for _, ended := range []bool{false, true} {
		in(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
			info, err := s.ExecStart(t.Context(), started(create(t, s, api.SessionCreateParams{})).ExecParams)
			if err != nil {
				t.Fatal(err)
			}
			if ended {
				time.Sleep(time.Minute)
			}
			whole := []string{`1 stdout@0 "ab"`, `2 stderr@0 "xy"`, `3 stdout@2 "cd"`, "4 gap stdout 4-104", `5 stdout@104 "ef"`, "6 exit 3"}
			wantLines(t, all(t, stream(t, s, api.ExecStreamParams{ExecID: info.ExecID})), whole...)
			wantLines(t, all(t, inBytes{stream(t, s, api.ExecStreamParams{ExecID: info.ExecID}).(api.ByteStream)}), whole...)
			for after := range int64(6) {
				p := api.ExecStreamParams{ExecID: info.ExecID, AfterSeq: after}
				want := slices.Clone(whole[after:])
				if after == 3 {
					want[0] = "4 gap stdout 3-104" // nobody knows what this reader has
				}
				wantLines(t, all(t, stream(t, s, p)), want...)
			}
			wantLines(t, all(t, stream(t, s, api.ExecStreamParams{ExecID: info.ExecID, AfterSeq: 6})), "6 exit 3")
			wantLines(t, all(t, stream(t, s, api.ExecStreamParams{ExecID: info.ExecID, Stream: "stderr"})), `2 stderr@0 "xy"`, "6 exit 3")
			for from, want := range map[int64][]string{
				1:   {`1 stdout@1 "b"`, `2 stderr@1 "y"`, `3 stdout@2 "cd"`, "4 gap stdout 4-104", `5 stdout@104 "ef"`},
				3:   {`3 stdout@3 "d"`, "4 gap stdout 4-104", `5 stdout@104 "ef"`},
				50:  {"4 gap stdout 50-104", `5 stdout@104 "ef"`},
				105: {`5 stdout@105 "f"`},
				106: nil,
			} {
				p := api.ExecStreamParams{ExecID: info.ExecID, FromOffset: from}
				wantLines(t, all(t, stream(t, s, p)), append(want, "6 exit 3")...)
			}
			_, err = s.ExecStream(t.Context(), api.ExecStreamParams{ExecID: info.ExecID, AfterSeq: 7})
			wantError(t, err, api.CodeInvalidParams, "params.after_seq: 7")
		})
	}
}

// TestManyReaders: each has a stream of its own, and none of those who came later ends
// the command by leaving.
func TestManyReaders(t *testing.T) {
	no := false
	rt := &sessiontest.Runtime{Command: func(ctx context.Context, x *sessiontest.Exec) int {
		x.Stdout("a")
		<-ctx.Done()
		return 0
	}}
	in(t, rt, func(t *testing.T, s *service.Service, r *session.Registry) {
		id := create(t, s, api.SessionCreateParams{})
		p := started(id)
		p.Detach = &no
		first := stream(t, s, p)
		exec := first.Start().ExecID
		if first.Start().StreamID != exec {
			t.Errorf("the first stream is %q", first.Start().StreamID)
		}
		ids := map[string]bool{exec: true}
		for range 100 {
			conn, gone := context.WithCancel(t.Context())
			st, err := s.ExecStream(conn, api.ExecStreamParams{ExecID: exec})
			if err != nil {
				t.Fatal(err)
			}
			if ev, err := st.Recv(); err != nil || show(ev) != `1 stdout@0 "a"` {
				t.Fatalf("%s, %v", show(ev), err)
			}
			if name := st.Start().StreamID; ids[name] || !strings.HasPrefix(name, exec+"/") || st.Start().ExecID != exec || st.Start().SessionID != id {
				t.Errorf("start = %+v", st.Start())
			}
			ids[st.Start().StreamID] = true
			gone()
			if _, err := st.Recv(); !errors.Is(err, context.Canceled) {
				t.Errorf("recv: %v", err)
			}
		}
		synctest.Wait()
		found, _ := r.Get(id)
		if found.Info().State != api.SessionRunning {
			t.Error("a reader that left ended the command")
		}
		first.Close()
		synctest.Wait()
		if found.Info().State != api.SessionIdle {
			t.Error("the first reader left and the command runs")
		}
	})
}

// TestReattachToSilence: the answer comes at once, also when there is nothing to push.
func TestReattachToSilence(t *testing.T) {
	rt := &sessiontest.Runtime{Command: func(context.Context, *sessiontest.Exec) int { time.Sleep(time.Hour); return 0 }}
	in(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		info, err := s.ExecStart(t.Context(), started(create(t, s, api.SessionCreateParams{})).ExecParams)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		st := stream(t, s, api.ExecStreamParams{ExecID: info.ExecID})
		if time.Since(began) != 0 {
			t.Errorf("after %s", time.Since(began))
		}
		wantLines(t, all(t, st), "1 exit 0")
	})
}

// TestCutAndResume: whoever leaves a stream anywhere, and comes back by number or by
// offset, has the same bytes in the end, each once.
func TestCutAndResume(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 30 {
		var want [2]strings.Builder
		var writes []string
		for range 200 {
			i := rng.IntN(2)
			piece := strings.Repeat(string(rune('a'+rng.IntN(26))), 1+rng.IntN(20))
			writes = append(writes, "oe"[i:i+1]+piece)
			want[i].WriteString(piece)
		}
		pause := []time.Duration{0, time.Microsecond}[rng.IntN(2)]
		rt := &sessiontest.Runtime{Command: writer(pause, 3, writes...)}
		in(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
			info, err := s.ExecStart(t.Context(), started(create(t, s, api.SessionCreateParams{})).ExecParams)
			if err != nil {
				t.Fatal(err)
			}
			have := map[string]*strings.Builder{"stdout": {}, "stderr": {}}
			exits, seq := 0, int64(0)
			for exits == 0 {
				p := api.ExecStreamParams{ExecID: info.ExecID, AfterSeq: seq}
				if rng.IntN(4) == 0 { // by the offset up to which both are there; what is had of one is left out
					p.AfterSeq, p.FromOffset = 0, int64(min(have["stdout"].Len(), have["stderr"].Len()))
				}
				st := stream(t, s, p)
				for range 1 + rng.IntN(30) {
					ev, err := st.Recv()
					if err != nil {
						t.Fatal(err)
					}
					if ev.Type == api.EventExit {
						exits++
						break
					}
					to, data := have[ev.Type], ev.Data
					if over := int64(to.Len()) - *ev.Offset; over < 0 || p.FromOffset == 0 && p.AfterSeq > 0 && over > 0 {
						t.Fatalf("%s, have %d", show(ev), to.Len())
					} else {
						data = data[min(over, int64(len(data))):]
					}
					to.WriteString(data)
					seq = max(seq, ev.Seq)
				}
				st.Close()
			}
			if have["stdout"].String() != want[0].String() || have["stderr"].String() != want[1].String() {
				t.Error("not the same bytes")
			}
		})
	}
}

// TestReadersSurviveTheLink breaks the connection to the runner under a reader.
func TestReadersSurviveTheLink(t *testing.T) {
	rt := &sessiontest.Runtime{Command: writer(10*time.Second, 0, "oa", "ob", "oc")}
	in(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		id := create(t, s, api.SessionCreateParams{})
		st := stream(t, s, started(id))
		time.AfterFunc(5*time.Second, rt.Runner(id).Break)
		wantLines(t, all(t, st), `1 stdout@0 "a"`, `2 stdout@1 "b"`, `3 stdout@2 "c"`, "4 exit 0")
	})
}

// TestOutputBehindTheEnd: a stream ends with the command, not with what it left running.
func TestOutputBehindTheEnd(t *testing.T) {
	var x *sessiontest.Exec
	var release func()
	rt := &sessiontest.Runtime{Command: func(_ context.Context, run *sessiontest.Exec) int {
		x, release = run, run.Hold()
		run.Stdout("a")
		return 0
	}}
	in(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		st := stream(t, s, started(create(t, s, api.SessionCreateParams{})))
		id := st.Start().ExecID
		wantLines(t, all(t, st), `1 stdout@0 "a"`, "2 exit 0")
		x.Stdout("late")
		for after := range int64(4) {
			got := all(t, stream(t, s, api.ExecStreamParams{ExecID: id, AfterSeq: after}))
			if got[len(got)-1] != "2 exit 0" || len(got) != 1+max(0, 1-int(after)) {
				t.Errorf("after %d: %v", after, got)
			}
		}
		out, err := s.ExecOutput(t.Context(), api.ExecOutputParams{ExecID: id})
		if err != nil || out.Data != "alate" || out.Complete || out.State != api.ExecExited {
			t.Errorf("%+v, %v", out, err)
		}
		release()
		synctest.Wait()
		if out, err = s.ExecOutput(t.Context(), api.ExecOutputParams{ExecID: id}); err != nil || !out.Complete || out.State != api.ExecClosed {
			t.Errorf("%+v, %v", out, err)
		}
	})
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
