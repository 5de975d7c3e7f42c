package soak_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

var kills = flag.Int("kills", 100, "times that TestKilledAnywhere kills the daemon")

// ticker prints numbered lines on both streams until its file is removed, and then their number. Some lines end in the middle of a write, inside a character.
const ticker = `i=0; while [ -e %s ]; do printf 'out %%d \303' $i; echo "err $i" >&2; printf '\244\n'; i=$((i+1)); [ $((i %% 50)) -gt 0 ] || sleep 0.01; done; echo "total $i"; exit 7`

// TestKilledAnywhere kills the daemon with SIGKILL at random moments, again and again,
// while commands print, readers read, and sessions come and go. In the end every
// reader has every byte once, in order; every session and every exit that a client has seen is
// still there; and there is no session that no client created.
func TestKilledAnywhere(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", "0.5", "--max-sessions", "200", "--log-level", "error",
		"--output-bytes", "1GiB", "--session-output-bytes", "4GiB"))
	l := &life{t: t, daemon: daemon, quit: make(chan struct{}), random: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 3))}
	flags := t.TempDir()
	service := daemon.Client(t)
	var readers sync.WaitGroup
	var tickers []*tickerExec
	for i := range 3 {
		x := &tickerExec{life: l, file: fmt.Sprintf("%s/%d", flags, i)}
		x.session = create(t, service, api.SessionCreateParams{Shell: []string{"dash", "bash", "zsh"}[i%3]}).SessionID
		run(t, service, x.session, "touch "+x.file)
		started, err := service.ExecStart(context.Background(), api.ExecParams{SessionID: x.session, Command: fmt.Sprintf(ticker, x.file)})
		if err != nil {
			t.Fatal(err)
		}
		x.id = started.ExecID
		tickers = append(tickers, x)
		readers.Go(x.read)
	}
	var churn sync.WaitGroup
	for i := range 3 {
		churn.Go(func() { l.churn(i) })
	}

	for range *kills {
		if t.Failed() {
			break
		}
		time.Sleep(time.Duration(l.random.IntN(120)) * time.Millisecond) // the random moment
		daemon.Kill9()
		daemon.Restart(t)
		l.restarts.Add(1)
	}
	close(l.quit)
	churn.Wait()
	service = daemon.Client(t)
	for _, x := range tickers {
		helper := create(t, service, api.SessionCreateParams{}).SessionID
		run(t, service, helper, "rm "+x.file)
		destroy(t, service, helper)
	}
	readers.Wait()
	if t.Failed() {
		return
	}
	for _, x := range tickers {
		x.compare(service)
		destroy(t, service, x.session)
	}
	l.settle(service)
	t.Logf("%d kills; lines read: %d, %d, %d; %d short commands, %d of them cut off; %d sessions made",
		l.restarts.Load(), tickers[0].lines, tickers[1].lines, tickers[2].lines, l.short.Load(), l.cut.Load(), l.made.Load())
}

// life is what the tests share with their daemon.
type life struct {
	t        *testing.T
	daemon   *trltest.Daemon
	quit     chan struct{}
	random   *rand.Rand
	restarts atomic.Int64
	short    atomic.Int64
	cut      atomic.Int64
	made     atomic.Int64
}

// lost reports whether an error can come from the death of the daemon.
func lost(err error) bool { return api.AsError(err).Code == api.CodeRuntimeUnavailable }

// dial connects as soon as there is a daemon.
func (l *life) dial() *client.Client {
	deadline := time.Now().Add(patience)
	for {
		c, err := client.Dial(context.Background(), l.daemon.Socket)
		if err == nil {
			return c
		}
		if time.Now().After(deadline) {
			l.t.Errorf("no daemon: %s", err)
			return nil
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// churn makes sessions, runs short commands in them and ends them.
func (l *life) churn(n int) {
	for round := 0; ; round++ {
		select {
		case <-l.quit:
			return
		default:
		}
		c := l.dial()
		if c == nil {
			return
		}
		if err := l.once(c, fmt.Sprintf("%d-%d", n, round)); err != nil && !lost(err) {
			l.t.Errorf("churn: %s", err)
		}
		c.Close()
	}
}

func (l *life) once(c *client.Client, word string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := c.SessionCreate(ctx, api.SessionCreateParams{Tags: []string{"churn"}})
	if err != nil {
		return err
	}
	l.made.Add(1)
	x, err := c.ExecStart(ctx, api.ExecParams{SessionID: s.SessionID, Command: "echo " + word + "; exit 5"})
	if err == nil {
		err = l.confirm(x.ExecID, word)
	}
	if err != nil && !lost(err) {
		return err
	}
	for again := l.dial(); again != nil; again = l.dial() {
		_, err := again.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: s.SessionID, Force: true})
		again.Close()
		if err == nil || errors.Is(err, api.ErrSessionNotFound) {
			return nil
		}
		if !lost(err) {
			return err
		}
	}
	return nil
}

// confirm gets the outcome of a command that was reported as started, over as many daemons as it
// takes.
func (l *life) confirm(id, word string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for tries := 0; ; tries++ {
		c := l.dial()
		if c == nil {
			return nil
		}
		r, err := c.ExecWait(ctx, api.ExecWaitParams{ExecIDs: []string{id}})
		var out api.ExecOutputResult
		if err == nil {
			out, err = c.ExecOutput(ctx, api.ExecOutputParams{ExecID: id})
		}
		c.Close()
		switch {
		case err != nil && lost(err):
			l.cut.Add(1)
			continue
		case err != nil:
			return fmt.Errorf("%s, after %d tries: %w", id, tries, err)
		case len(r.Happened) != 1 || r.Happened[0].Outcome == nil || r.Happened[0].Outcome.ExitCode != 5:
			return fmt.Errorf("%s: waited for %+v", id, r)
		case out.Data != word+"\n":
			return fmt.Errorf("%s: its output is %q, not %q", id, out.Data, word)
		}
		l.short.Add(1)
		return nil
	}
}

// settle waits until nothing of the sessions that came and went is left.
func (l *life) settle(service api.Service) {
	testkit.EventuallyNoProblem(l.t, func() string {
		list, err := service.SessionList(context.Background(), api.SessionListParams{})
		if err != nil {
			return err.Error()
		}
		if len(list.Sessions) > 0 {
			// Some were created while the daemon of their creator died: no client knows them, so they are idle.
			for _, s := range list.Sessions {
				if strings.Join(s.Tags, "") != "churn" {
					return fmt.Sprintf("session %s is left: %+v", s.SessionID, s)
				}
				if says(l.t, service, s.SessionID, "echo usable", "usable\n"); !l.t.Failed() {
					destroy(l.t, service, s.SessionID)
				}
			}
			return "sessions were left"
		}
		if left := below(l.daemon.PID); len(left) > 0 {
			return fmt.Sprintf("below the daemon: %v", left)
		}
		return ""
	})
}

// tickerExec is a command that prints, and one reader of it.
type tickerExec struct {
	life    *life
	file    string
	session string
	id      string

	seq     int64
	offset  [2]int64
	text    [2]strings.Builder
	lines   int
	outcome *api.ExecOutcome
}

// read reads to the exit, over as many daemons as it takes.
func (x *tickerExec) read() {
	for x.outcome == nil && !x.life.t.Failed() {
		c := x.life.dial()
		if c == nil {
			return
		}
		err := x.attach(c)
		c.Close()
		if err != nil && !lost(err) {
			x.life.t.Errorf("%s: %s", x.id, err)
			return
		}
	}
}

func (x *tickerExec) attach(c *client.Client) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := c.ExecStream(ctx, api.ExecStreamParams{ExecID: x.id, AfterSeq: x.seq})
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		ev, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if ev.Seq <= x.seq {
			return fmt.Errorf("push %d comes after %d", ev.Seq, x.seq)
		}
		x.seq = ev.Seq
		switch ev.Type {
		case api.EventStdout, api.EventStderr:
			i := 0
			if ev.Type == api.EventStderr {
				i = 1
			}
			if *ev.Offset != x.offset[i] {
				return fmt.Errorf("push %d begins at byte %d of %s, must be %d", ev.Seq, *ev.Offset, ev.Type, x.offset[i])
			}
			data := api.Data(ev.Data, ev.DataBase64)
			x.offset[i] += int64(len(data))
			x.text[i].Write(data)
		case api.EventExit:
			x.outcome = ev.ExecOutcome
		default:
			return fmt.Errorf("a push of type %s: %+v", ev.Type, ev)
		}
	}
}

// compare checks every line, the exit, and that the log has the same bytes.
func (x *tickerExec) compare(service api.Service) {
	t := x.life.t
	out, err := x.text[0].String(), x.text[1].String()
	x.lines = strings.Count(err, "\n")
	var want, wantErr strings.Builder
	for i := range x.lines {
		fmt.Fprintf(&want, "out %d ä\n", i)
		fmt.Fprintf(&wantErr, "err %d\n", i)
	}
	fmt.Fprintf(&want, "total %d\n", x.lines)
	if out != want.String() || err != wantErr.String() {
		t.Errorf("%s: %d lines were printed, and not these were read: stdout has %d bytes, must be %d; stderr %d, must be %d",
			x.id, x.lines, len(out), want.Len(), len(err), wantErr.Len())
	}
	if x.outcome.ExitCode != 7 || x.outcome.StdoutBytes != int64(want.Len()) || x.outcome.StderrBytes != int64(wantErr.Len()) {
		t.Errorf("%s: outcome %+v", x.id, *x.outcome)
	}
	var log strings.Builder
	for offset, limit := int64(0), int64(1<<20); ; {
		r, err := service.ExecOutput(context.Background(), api.ExecOutputParams{ExecID: x.id, Offset: offset, Limit: &limit})
		if err != nil {
			t.Errorf("%s: %s", x.id, err)
			return
		}
		log.Write(api.Data(r.Data, r.DataBase64))
		if offset = r.NextOffset; r.Complete {
			break
		}
	}
	if log.String() != out {
		t.Errorf("%s: exec.output has %d bytes and exec.stream %d, or they differ", x.id, log.Len(), len(out))
	}
}
