package runner_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestSearch: the runner searches the output of a command, and waits for a line, also for one that
// has begun before.
func TestSearch(t *testing.T) {
	d := start(t, api.SessionCreateParams{Shell: "sh"})
	id := d.begin(api.ExecParams{Command: `echo one; echo two >&2; printf thr; while [ ! -e "` + d.dir + `/go" ]; do sleep 0.01; done; echo ee; exit 3`}).ExecID
	d.read(id, func(out string) bool { return len(out) >= len("one\ntwo\nthr") })

	var g link.GrepResult
	body, err := d.conn.Call(context.Background(), link.ExecGrep.With(&link.GrepParams{ExecID: id, Stream: api.EventStdout, Pattern: "e|thr", Limit: 100}, nil, &g))
	if err != nil || string(body) != "one" || len(g.Lines) != 1 || g.Next != 4 || g.Total != 7 || g.Complete {
		t.Errorf("%q, %s, %v", body, text(g), err)
	}
	match := func(ctx context.Context, p link.MatchParams) (r link.MatchResult, body string, err error) {
		data, err := d.conn.Call(ctx, link.ExecMatch.With(&p, nil, &r))
		return r, string(data), err
	}
	last := d.info(id).LastSeq
	if r, body, err := match(context.Background(), link.MatchParams{ExecID: id, Pattern: "^t.o", Until: last}); err != nil || body != "two" || r.Stream != api.EventStderr {
		t.Errorf("%q, %s, %v", body, text(r), err)
	}
	none, _, err := match(context.Background(), link.MatchParams{ExecID: id, Pattern: "^three$", Until: last})
	if err != nil || none.Line != nil || none.Outcome != nil || none.LastSeq != last {
		t.Errorf("%s, %v", text(none), err)
	}

	// A caller that leaves ends the search, and another one goes on.
	before := descriptors(t, d)
	ctx, leave := context.WithCancel(context.Background())
	left := make(chan error)
	go func() {
		_, _, err := match(ctx, link.MatchParams{ExecID: id, Pattern: "never", Wait: true})
		left <- err
	}()
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	touch(t, d.dir+"/go")
	if r, body, err := match(context.Background(), link.MatchParams{ExecID: id, Pattern: "^three$", Position: none.Position, Wait: true}); err != nil || body != "three" || r.Line.Offset != 4 {
		t.Errorf("%q, %s, %v", body, text(r), err)
	}
	if r, _, err := match(context.Background(), link.MatchParams{ExecID: id, Pattern: "never", Wait: true}); err != nil || r.Line != nil || r.Outcome == nil || r.Outcome.ExitCode != 3 {
		t.Errorf("%s, %v", text(r), err)
	}
	testkit.Eventually(t, "no descriptor is left", func() bool { return descriptors(t, d) <= before })
	for _, o := range []link.Outgoing{
		link.ExecGrep.With(&link.GrepParams{ExecID: id, Stream: api.EventStdout, Pattern: "("}, nil, &link.GrepResult{}),
		link.ExecMatch.With(&link.MatchParams{ExecID: id, Pattern: "(a{1000}){1000}"}, nil, &link.MatchResult{}),
	} {
		if _, err := d.conn.Call(context.Background(), o); !errors.Is(err, api.ErrInvalidParams) {
			t.Errorf("%s: %v", o.Name, err)
		}
	}
	_ = os.Remove(d.dir + "/go")
}
