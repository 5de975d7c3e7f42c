package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/service"
	"github.com/trl-dev/trl/internal/service/servicetest"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
	"github.com/trl-dev/trl/internal/testkit"
)

// stage is a service with one terminal that echoes.
type stage struct {
	*service.Service
	*testing.T
	registry *session.Registry
	runner   *sessiontest.Runner
	id       string
}

func onStage(t *testing.T, f func(t *testing.T, s *stage)) {
	t.Helper()
	rt := &sessiontest.Runtime{Command: sessiontest.Echo}
	servicetest.In(t, rt, func(t *testing.T, svc *service.Service, r *session.Registry) {
		id := servicetest.Create(t, svc, api.SessionCreateParams{Kind: api.KindTerminal, Name: "a", Command: []string{"echo"}})
		f(t, &stage{svc, t, r, rt.Runner(id), id})
	})
}

func (s *stage) types(text string) {
	s.Helper()
	if _, err := s.SessionInput(s.Context(), api.SessionInputParams{SessionID: "a", Text: text}); err != nil {
		s.Fatal(err)
	}
	synctest.Wait()
}

func (s *stage) attach(ctx context.Context, p api.SessionAttachParams) api.Stream {
	s.Helper()
	p.SessionID = "a"
	st, err := s.SessionAttach(ctx, p)
	if err != nil {
		s.Fatal(err)
	}
	start := st.Start()
	if start.SessionID != s.id || start.ViewerID == "" || !strings.Contains(start.StreamID, start.ViewerID) {
		s.Errorf("start = %+v", start)
	}
	return st
}

func size(cols, rows int) *api.TerminalSize { return &api.TerminalSize{Cols: cols, Rows: rows} }

// saw shows one push; viewers are named by names.
func saw(ev api.StreamEvent, names map[string]string) string {
	data := string(api.Data(ev.Data, ev.DataBase64))
	if len(data) > 40 {
		data = fmt.Sprintf("%s… %d", data[:10], len(data))
	}
	switch ev.Type {
	case api.EventSnapshot:
		return fmt.Sprintf("%d snapshot@%d %dx%d of %s %q", ev.Seq, *ev.Offset, ev.Cols, ev.Rows, names[ev.OwnerID], data)
	case api.EventResize:
		return fmt.Sprintf("%d resize@%d %dx%d of %s", ev.Seq, *ev.Offset, ev.Cols, ev.Rows, names[ev.OwnerID])
	case api.EventViewers:
		list := make([]string, len(ev.Viewers))
		for i, v := range ev.Viewers {
			list[i] = fmt.Sprintf("%s %q %dx%d read-only %t owner %t", names[v.ViewerID], v.Label, v.Cols, v.Rows, v.ReadOnly, v.Owner)
		}
		return fmt.Sprintf("%d viewers@%d %s", ev.Seq, *ev.Offset, strings.Join(list, ", "))
	case api.EventExit:
		return fmt.Sprintf("%d exit@%d %d", ev.Seq, *ev.Offset, ev.ExitCode)
	}
	return fmt.Sprintf("%d %s@%d %q", ev.Seq, ev.Type, *ev.Offset, data)
}

// next reads that many pushes.
func (s *stage) next(st api.Stream, n int, names map[string]string) []string {
	s.Helper()
	var got []string
	for range n {
		ev, err := st.Recv()
		if err != nil {
			s.Fatalf("after %d pushes: %v", len(got), err)
		}
		if ev.StreamID != st.Start().StreamID {
			s.Errorf("stream_id = %q", ev.StreamID)
		}
		got = append(got, saw(ev, names))
	}
	return got
}

// rest reads to the end, which must be a regular one.
func (s *stage) rest(st api.Stream) []string {
	s.Helper()
	var got []string
	for {
		ev, err := st.Recv()
		if err == io.EOF {
			return got
		}
		if err != nil {
			s.Fatal(err)
		}
		got = append(got, saw(ev, nil))
	}
}

func TestAttach(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.types("one ")
		st := s.attach(t.Context(), api.SessionAttachParams{})
		s.types("two ")
		s.types("é")
		got := s.next(st, 2, nil)
		s.types("\xff")
		s.types("exit")
		servicetest.WantLines(t, append(got, s.rest(st)...), `1 snapshot@4 80x24 of  "<80x24>one "`, `2 output@4 "two é"`, `3 output@10 "\xff"`, `4 exit@11 3`)
		if _, err := st.Recv(); err != io.EOF {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestAttachComesBack: with an offset come exactly the missing bytes, with the changes of
// size where they were.
func TestAttachComesBack(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		s.types("0123")
		if _, err := s.SessionResize(t.Context(), api.SessionResizeParams{SessionID: "a", Cols: 100, Rows: 30}); err != nil {
			t.Fatal(err)
		}
		s.types("4567")
		for from, want := range map[int64][]string{
			2: {`1 output@2 "23"`, `2 resize@4 100x30 of `, `3 output@4 "4567"`},
			4: {`1 resize@4 100x30 of `, `2 output@4 "4567"`},
			6: {`1 resize@6 100x30 of `, `2 output@6 "67"`},
			8: {`1 resize@8 100x30 of `},
		} {
			st := s.attach(t.Context(), api.SessionAttachParams{FromOffset: &from})
			servicetest.WantLines(t, s.next(st, len(want), nil), want...)
			st.Close()
		}
		_, err := s.SessionAttach(t.Context(), api.SessionAttachParams{SessionID: "a", FromOffset: new(int64(9))})
		testkit.WantError(t, err, api.CodeInvalidParams, "params.from_offset: 9 is beyond the end, which is 8")
		synctest.Wait()
		if n := s.viewers(); n != 0 {
			t.Errorf("%d viewers", n)
		}
	})
}

func (s *stage) viewers() int {
	s.Helper()
	info, err := s.SessionInfo(s.Context(), api.SessionInfoParams{SessionID: s.id})
	if err != nil {
		s.Fatal(err)
	}
	list, err := s.SessionList(s.Context(), api.SessionListParams{})
	if err != nil || info.State != api.SessionTerminated && list.Sessions[0].Terminal.Viewers != info.Terminal.Viewers {
		s.Errorf("%+v, %v", list, err)
	}
	return info.Terminal.Viewers
}

// TestSlowViewer: a viewer that is far behind gets a new snapshot; a viewer that reconnects may be
// further behind.
func TestSlowViewer(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		slow := s.attach(t.Context(), api.SessionAttachParams{})
		s.next(slow, 1, nil)
		s.types("flood 1000000")
		servicetest.WantLines(t, s.next(slow, 1, nil), `2 output@0 "**********… 65536"`)
		s.types("flood 1000000")
		servicetest.WantLines(t, s.next(slow, 1, nil), `3 snapshot@2000000 80x24 of  "<80x24>***… 2000007"`)
		s.types("x")
		servicetest.WantLines(t, s.next(slow, 1, nil), `4 output@2000000 "x"`)

		back := s.attach(t.Context(), api.SessionAttachParams{FromOffset: new(int64(1))})
		got := int64(1)
		for got < 2000001 {
			ev, err := back.Recv()
			if err != nil || ev.Type != api.EventOutput && ev.Type != api.EventResize || *ev.Offset != got {
				t.Fatalf("at %d: %s, %v", got, saw(ev, nil), err)
			}
			got += int64(len(ev.Data))
		}
		s.types("flood 3000000")
		far := s.attach(t.Context(), api.SessionAttachParams{FromOffset: new(int64(1))})
		servicetest.WantLines(t, s.next(far, 1, nil), `1 snapshot@5000001 80x24 of  "<80x24>***… 5000008"`)
	})
}

// TestTwoViewers: each hears what the other does to the size, while it waits too.
func TestTwoViewers(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		conn, hangUp := context.WithCancel(t.Context())
		one := s.attach(conn, api.SessionAttachParams{Size: size(100, 30)})
		two := s.attach(t.Context(), api.SessionAttachParams{Size: size(90, 20)})
		names := map[string]string{one.Start().ViewerID: "one", two.Start().ViewerID: "two", "": "nobody"}
		servicetest.WantLines(t, s.next(one, 1, names), `1 snapshot@0 100x30 of one "<100x30>"`)
		servicetest.WantLines(t, s.next(two, 1, names), `1 snapshot@0 100x30 of one "<100x30>"`)
		if n := s.viewers(); n != 2 {
			t.Errorf("%d viewers", n)
		}
		s.types("ab")
		servicetest.WantLines(t, s.next(one, 1, names), `2 output@0 "ab"`)
		heard := make(chan []string, 1)
		go func() { heard <- s.next(two, 4, names) }()
		synctest.Wait()
		_, err := s.SessionResize(t.Context(), api.SessionResizeParams{SessionID: "a", Cols: 101, Rows: 31, ViewerID: one.Start().ViewerID})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		hangUp() // its connection has closed, and the viewer has left
		servicetest.WantLines(t, <-heard, `2 output@0 "ab"`, `3 resize@2 101x31 of one`, `4 resize@2 101x31 of two`, `5 resize@2 90x20 of two`)
		if _, err := one.Recv(); !errors.Is(err, context.Canceled) {
			t.Errorf("a viewer whose connection is gone: %v", err)
		}
		if n := s.viewers(); n != 1 {
			t.Errorf("%d viewers", n)
		}
		three := s.attach(t.Context(), api.SessionAttachParams{Size: size(70, 10), TakeSize: true})
		names[three.Start().ViewerID] = "three"
		servicetest.WantLines(t, s.next(three, 1, names), `1 snapshot@2 70x10 of three "<70x10>ab"`)
		servicetest.WantLines(t, s.next(two, 2, names), `6 resize@2 90x20 of three`, `7 resize@2 70x10 of three`)
		three.Close()
		two.Close()
		synctest.Wait()
		if n := s.viewers(); n != 0 {
			t.Errorf("%d viewers", n)
		}
	})
}

// TestViewersArePushed: a viewer that asks for it gets the list when it changes, while it waits too, and
// not when nothing in the list has changed.
func TestViewersArePushed(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		named := api.WithCaller(t.Context(), &api.Caller{Transport: "socket", Label: "cli@box"})
		one := s.attach(named, api.SessionAttachParams{Size: size(100, 30), Viewers: true})
		names := map[string]string{one.Start().ViewerID: "one"}
		servicetest.WantLines(t, s.next(one, 2, names), `1 snapshot@0 100x30 of one "<100x30>"`, `2 viewers@0 one "cli@box" 100x30 read-only false owner true`)
		heard := make(chan api.StreamEvent, 1)
		go func() { heard <- testkit.Must(one.Recv())(t) }()
		synctest.Wait()
		phone := s.attach(named, api.SessionAttachParams{ReadOnly: true, Label: "phone"})
		names[phone.Start().ViewerID] = "phone"
		servicetest.WantLines(t, []string{saw(<-heard, names)}, `3 viewers@0 one "cli@box" 100x30 read-only false owner true, phone "phone" 0x0 read-only true owner false`)
		resize := func(of api.Stream, cols, rows int) {
			t.Helper()
			p := api.SessionResizeParams{SessionID: "a", Cols: cols, Rows: rows, ViewerID: of.Start().ViewerID}
			testkit.Must(s.SessionResize(t.Context(), p))(t)
		}
		resize(phone, 40, 20)
		servicetest.WantLines(t, s.next(one, 1, names), `4 viewers@0 one "cli@box" 100x30 read-only false owner true, phone "phone" 40x20 read-only true owner false`)
		resize(phone, 40, 20) // the same again
		s.types("ab")
		servicetest.WantLines(t, s.next(one, 1, names), `5 output@0 "ab"`)
		two := s.attach(t.Context(), api.SessionAttachParams{Size: size(70, 10), TakeSize: true})
		names[two.Start().ViewerID] = "two"
		servicetest.WantLines(t, s.next(one, 3, names),
			`6 resize@2 100x30 of two`, `7 viewers@2 one "cli@box" 100x30 read-only false owner false, phone "phone" 40x20 read-only true owner false, two "" 70x10 read-only false owner true`,
			`8 resize@2 70x10 of two`)
		two.Close()
		phone.Close()
		synctest.Wait()
		servicetest.WantLines(t, s.next(one, 3, names), `9 resize@2 70x10 of one`, `10 viewers@2 one "cli@box" 100x30 read-only false owner true`, `11 resize@2 100x30 of one`)
		// A viewer that resumes gets the list, one that did not ask none.
		back := s.attach(t.Context(), api.SessionAttachParams{FromOffset: new(int64(2)), Viewers: true})
		names[back.Start().ViewerID] = "back"
		servicetest.WantLines(t, s.next(back, 2, names)[1:],
			`2 viewers@2 one "cli@box" 100x30 read-only false owner true, back "" 0x0 read-only false owner false`)
		mute := s.attach(t.Context(), api.SessionAttachParams{})
		s.types("exit")
		servicetest.WantLines(t, s.rest(mute), `1 snapshot@2 100x30 of  "<100x30>ab"`, `2 exit@2 3`)
	})
}

// TestAttachEnds in every way in which it can.
func TestAttachEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(s *stage)
		want func(t *testing.T, err error)
	}{
		"destroy": {func(s *stage) {
			_, _ = s.SessionDestroy(s.Context(), api.SessionDestroyParams{SessionID: "a"})
		}, func(t *testing.T, err error) {
			if err != io.EOF {
				t.Error(err)
			}
		}},
		"crash": {func(s *stage) { s.runner.Crash("killed by SIGKILL") }, func(t *testing.T, err error) {
			testkit.WantError(t, err, api.CodeSessionTerminated, "its runner died: killed by SIGKILL")
		}},
		"the daemon leaves": {func(s *stage) { s.registry.Leave() }, func(t *testing.T, err error) {
			testkit.WantError(t, err, api.CodeRuntimeUnavailable, "the daemon is shutting down")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := &sessiontest.Runtime{Command: sessiontest.Echo}
				svc, r := servicetest.New(session.Config{}, rt)
				id := servicetest.Create(t, svc, api.SessionCreateParams{Kind: api.KindTerminal, Name: "a", Command: []string{"echo"}})
				s := &stage{svc, t, r, rt.Runner(id), id}
				st := s.attach(t.Context(), api.SessionAttachParams{})
				s.next(st, 1, nil)
				over := make(chan error, 1)
				go func() {
					for {
						ev, err := st.Recv()
						if err != nil {
							over <- err
							return
						}
						if ev.Type != api.EventExit {
							t.Errorf("%+v", ev)
						}
					}
				}()
				synctest.Wait()
				c.end(s)
				c.want(t, <-over)
				if name == "the daemon leaves" {
					s.runner.Kill()
					return
				}
				r.Close(nil)
			})
		})
	}
}
