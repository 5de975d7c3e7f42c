package stream_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/service"
	"github.com/trl-dev/trl/internal/service/servicetest"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

// inBytes reads a stream as those do who take its output as bytes beside the pushes.
type inBytes struct{ api.ByteStream }

func (b inBytes) Recv() (api.StreamEvent, error) {
	ev, data, err := b.RecvBytes()
	ev.Data, ev.DataBase64 = api.Text(data)
	return ev, err
}

func started(session string) api.ExecStreamParams {
	return api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: session, Command: "x"}}
}

func TestStreamPushes(t *testing.T) {
	for _, c := range []struct {
		name   string
		writes []string
		want   []string
		joined []string // the pushes of RecvBytes, which joins some; nil: the same
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
				rt := &sessiontest.Runtime{Command: sessiontest.Writer(pause, 5, c.writes...)}
				servicetest.In(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
					id := servicetest.Create(t, s, api.SessionCreateParams{})
					servicetest.WantLines(t, servicetest.All(t, servicetest.Stream(t, s, started(id))), c.want...)
					want := c.want
					if pause == 0 && c.joined != nil {
						want = c.joined
					}
					servicetest.WantLines(t, servicetest.All(t, inBytes{servicetest.Stream(t, s, started(id)).(api.ByteStream)}), want...)
				})
			}
		})
	}
}

// TestReattach reads the same command again, from anywhere.
func TestReattach(t *testing.T) {
	writes := []string{"oab", "exy", "ocd", "gap", "oef"}
	rt := &sessiontest.Runtime{Command: sessiontest.Writer(time.Second, 3, writes...)}
	for _, ended := range []bool{false, true} {
		servicetest.In(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
			info, err := s.ExecStart(t.Context(), started(servicetest.Create(t, s, api.SessionCreateParams{})).ExecParams)
			if err != nil {
				t.Fatal(err)
			}
			if ended {
				time.Sleep(time.Minute)
			}
			whole := []string{`1 stdout@0 "ab"`, `2 stderr@0 "xy"`, `3 stdout@2 "cd"`, "4 gap stdout 4-104", `5 stdout@104 "ef"`, "6 exit 3"}
			servicetest.WantLines(t, servicetest.All(t, servicetest.Stream(t, s, api.ExecStreamParams{ExecID: info.ExecID})), whole...)
			servicetest.WantLines(t, servicetest.All(t, inBytes{servicetest.Stream(t, s, api.ExecStreamParams{ExecID: info.ExecID}).(api.ByteStream)}), whole...)
			for after := range int64(6) {
				p := api.ExecStreamParams{ExecID: info.ExecID, AfterSeq: after}
				want := slices.Clone(whole[after:])
				if after == 3 {
					want[0] = "4 gap stdout 3-104" // the position of this reader is unknown
				}
				servicetest.WantLines(t, servicetest.All(t, servicetest.Stream(t, s, p)), want...)
			}
			servicetest.WantLines(t, servicetest.All(t, servicetest.Stream(t, s, api.ExecStreamParams{ExecID: info.ExecID, AfterSeq: 6})), "6 exit 3")
			servicetest.WantLines(t, servicetest.All(t, servicetest.Stream(t, s, api.ExecStreamParams{ExecID: info.ExecID, Stream: "stderr"})), `2 stderr@0 "xy"`, "6 exit 3")
			for from, want := range map[int64][]string{
				1:   {`1 stdout@1 "b"`, `2 stderr@1 "y"`, `3 stdout@2 "cd"`, "4 gap stdout 4-104", `5 stdout@104 "ef"`},
				3:   {`3 stdout@3 "d"`, "4 gap stdout 4-104", `5 stdout@104 "ef"`},
				50:  {"4 gap stdout 50-104", `5 stdout@104 "ef"`},
				105: {`5 stdout@105 "f"`},
				106: nil,
			} {
				p := api.ExecStreamParams{ExecID: info.ExecID, FromOffset: from}
				servicetest.WantLines(t, servicetest.All(t, servicetest.Stream(t, s, p)), append(want, "6 exit 3")...)
			}
			_, err = s.ExecStream(t.Context(), api.ExecStreamParams{ExecID: info.ExecID, AfterSeq: 7})
			testkit.WantError(t, err, api.CodeInvalidParams, "params.after_seq: 7")
		})
	}
}

// TestManyReaders: each reader has a stream of its own, and closing a later one does not end the
// command.
func TestManyReaders(t *testing.T) {
	no := false
	rt := &sessiontest.Runtime{Command: func(ctx context.Context, x *sessiontest.Exec) int {
		x.Stdout("a")
		<-ctx.Done()
		return 0
	}}
	servicetest.In(t, rt, func(t *testing.T, s *service.Service, r *session.Registry) {
		id := servicetest.Create(t, s, api.SessionCreateParams{})
		p := started(id)
		p.Detach = &no
		first := servicetest.Stream(t, s, p)
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
			if ev, err := st.Recv(); err != nil || servicetest.Show(ev) != `1 stdout@0 "a"` {
				t.Fatalf("%s, %v", servicetest.Show(ev), err)
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
	servicetest.In(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		info, err := s.ExecStart(t.Context(), started(servicetest.Create(t, s, api.SessionCreateParams{})).ExecParams)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		st := servicetest.Stream(t, s, api.ExecStreamParams{ExecID: info.ExecID})
		if time.Since(began) != 0 {
			t.Errorf("after %s", time.Since(began))
		}
		servicetest.WantLines(t, servicetest.All(t, st), "1 exit 0")
	})
}

// TestCutAndResume: a reader that leaves a stream anywhere, and resumes by number or by offset, has
// the same bytes in the end, each once.
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
		rt := &sessiontest.Runtime{Command: sessiontest.Writer(pause, 3, writes...)}
		servicetest.In(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
			info, err := s.ExecStart(t.Context(), started(servicetest.Create(t, s, api.SessionCreateParams{})).ExecParams)
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
				st := servicetest.Stream(t, s, p)
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
						t.Fatalf("%s, have %d", servicetest.Show(ev), to.Len())
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
	rt := &sessiontest.Runtime{Command: sessiontest.Writer(10*time.Second, 0, "oa", "ob", "oc")}
	servicetest.In(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		id := servicetest.Create(t, s, api.SessionCreateParams{})
		st := servicetest.Stream(t, s, started(id))
		time.AfterFunc(5*time.Second, rt.Runner(id).Break)
		servicetest.WantLines(t, servicetest.All(t, st), `1 stdout@0 "a"`, `2 stdout@1 "b"`, `3 stdout@2 "c"`, "4 exit 0")
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
	servicetest.In(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		st := servicetest.Stream(t, s, started(servicetest.Create(t, s, api.SessionCreateParams{})))
		id := st.Start().ExecID
		servicetest.WantLines(t, servicetest.All(t, st), `1 stdout@0 "a"`, "2 exit 0")
		x.Stdout("late")
		for after := range int64(4) {
			got := servicetest.All(t, servicetest.Stream(t, s, api.ExecStreamParams{ExecID: id, AfterSeq: after}))
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
			servicetest.In(t, &sessiontest.Runtime{Command: sessiontest.Hang}, func(t *testing.T, s *service.Service, r *session.Registry) {
				ctx, gone := context.WithCancel(t.Context())
				defer gone()
				id := servicetest.Create(t, s, api.SessionCreateParams{})
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
	rt := &sessiontest.Runtime{Command: sessiontest.Hang}
	servicetest.In(t, rt, func(t *testing.T, s *service.Service, _ *session.Registry) {
		id := servicetest.Create(t, s, api.SessionCreateParams{Name: "build"})
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
		testkit.WantError(t, <-failed, api.CodeSessionTerminated, `session "build": has ended: its runner died`)
	})
}
