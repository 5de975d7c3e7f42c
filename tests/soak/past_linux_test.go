package soak_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// wrote is a command that was run, and what its stdout is.
type wrote struct {
	exec, stdout string
	code         int
}

// work runs commands that write little and much.
func work(t *testing.T, service api.Service, session string) []wrote {
	t.Helper()
	var list []wrote
	for _, w := range []struct {
		command, stdout string
		code            int
	}{
		{"echo hello-trinket", "hello-trinket\n", 0},
		{"printf 'a\\303'; sleep 0.01; printf '\\244\\377'; exit 3", "a\xc3\xa4\xff", 3},
		{"yes trinket-flood | head -c 6000000", strings.Repeat("trinket-flood\n", 6000000/14+1)[:6000000], 0},
	} {
		r := run(t, service, session, w.command)
		list = append(list, wrote{r.ExecID, w.stdout, w.code})
	}
	return list
}

// readPast compares everything that can be read of a session that has ended.
func readPast(t *testing.T, service api.Service, session string, list []wrote) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	info, err := service.SessionInfo(ctx, api.SessionInfoParams{SessionID: session})
	if err != nil || info.State != api.SessionTerminated || info.Cause == "" || info.TerminatedAt == nil || info.RunnerPID != 0 {
		t.Errorf("session.info %s: %+v, %v", session, info, err)
	}
	execs, err := service.ExecList(ctx, api.ExecListParams{SessionID: session})
	if err != nil || len(execs.Execs) != len(list) {
		t.Errorf("exec.list %s: %d commands, must be %d, %v", session, len(execs.Execs), len(list), err)
	}
	for _, w := range list {
		x, err := service.ExecInfo(ctx, api.ExecInfoParams{ExecID: w.exec})
		if err != nil || x.State != api.ExecClosed || x.Outcome == nil || x.Outcome.ExitCode != w.code {
			t.Errorf("exec.info %s: %+v, %v", w.exec, x, err)
		}
		tail := int64(1000)
		o, err := service.ExecOutput(ctx, api.ExecOutputParams{ExecID: w.exec, Tail: &tail})
		want := w.stdout[max(0, len(w.stdout)-1000):]
		if err != nil || string(api.Data(o.Data, o.DataBase64)) != want || !o.Complete || o.TotalBytes != int64(len(w.stdout)) {
			t.Errorf("exec.output %s: %d of %d bytes, %v", w.exec, len(o.Data), o.TotalBytes, err)
		}
		streamed(ctx, t, service, w, 0)
		streamed(ctx, t, service, w, 1)
	}
	if left := sessionProcesses(session); len(left) > 0 {
		t.Errorf("session %s has ended, but there is %v", session, left)
	}
}

// streamed re-attaches to a command behind a record.
func streamed(ctx context.Context, t *testing.T, service api.Service, w wrote, after int64) {
	t.Helper()
	stream, err := service.ExecStream(ctx, api.ExecStreamParams{ExecID: w.exec, AfterSeq: after})
	if err != nil {
		t.Errorf("exec.stream %s: %s", w.exec, err)
		return
	}
	defer stream.Close()
	var got []byte
	at, exit := int64(-1), false
	for {
		ev, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Errorf("exec.stream %s: %s", w.exec, err)
			return
		}
		switch ev.Type {
		case api.EventStdout:
			if at < 0 {
				at = *ev.Offset
			}
			got = append(got, api.Data(ev.Data, ev.DataBase64)...)
		case api.EventExit:
			exit = ev.ExitCode == w.code
		default:
			t.Errorf("exec.stream %s: %+v", w.exec, ev)
		}
	}
	if at < 0 {
		at = int64(len(w.stdout))
	}
	if !exit || string(got) != w.stdout[at:] || after == 0 && at > 0 {
		t.Errorf("exec.stream %s after %d: %d bytes from %d, exit %v", w.exec, after, len(got), at, exit)
	}
}

// TestPast reads sessions that have ended, in every way there is to end, also after the
// daemon was killed and after it left and came back. When it stops, nothing is left.
func TestPast(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", "1"))
	service := daemon.Client(t)
	type past struct {
		id   string
		list []wrote
	}
	var all []past
	for i, end := range []func(id string){
		func(id string) { destroy(t, service, id) },
		func(id string) { // its runner gets a signal to end
			if err := runnerOf(t, service, id).Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
			testkit.EventuallyNoProblem(t, func() string {
				if info, err := service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: id}); err != nil || info.State != api.SessionTerminated {
					return fmt.Sprintf("session %s: %s, %v", id, info.State, err)
				}
				return ""
			})
		},
		func(id string) {
			if _, err := service.SessionDestroy(context.Background(), api.SessionDestroyParams{SessionID: id, Force: true}); err != nil {
				t.Error(err)
			}
		},
	} {
		id := create(t, service, api.SessionCreateParams{Name: fmt.Sprintf("past%d", i)}).SessionID
		p := past{id, work(t, service, id)}
		end(id)
		readPast(t, service, id, p.list)
		all = append(all, p)
	}
	looksSecret(t, daemon, "trinket")

	daemon.Kill9()
	daemon.Restart(t)
	service = daemon.Client(t)
	list, err := service.SessionList(context.Background(), api.SessionListParams{State: api.SessionTerminated})
	if err != nil || len(list.Sessions) != len(all) {
		t.Fatalf("session.list: %d sessions, must be %d, %v", len(list.Sessions), len(all), err)
	}
	for _, p := range all {
		readPast(t, service, p.id, p.list)
	}
	looksSecret(t, daemon, "trinket")
	if left := below(daemon.PID); len(left) > 0 {
		t.Errorf("below the daemon: %v", left)
	}
	daemon.Stop(t)
	if left := strings.Join(append(files(daemon.RuntimeDir), files(daemon.StateDir)...), "\n"); strings.Contains(left, "s-") {
		t.Errorf("files of sessions are left behind: %q", left)
	}
}

func runnerOf(t *testing.T, service api.Service, session string) *os.Process {
	t.Helper()
	info, err := service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: session})
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(info.RunnerPID)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// looksSecret looks for a word in all files of the daemon that have a name. A number does not do: it
// can be a part of a time.
func looksSecret(t *testing.T, d *trltest.Daemon, word string) {
	t.Helper()
	for _, dir := range []string{d.StateDir, d.RuntimeDir} {
		for _, name := range files(dir) {
			if data, err := os.ReadFile(filepath.Join(dir, name)); err == nil && bytes.Contains(data, []byte(word)) {
				t.Errorf("%s has what a command wrote", filepath.Join(dir, name))
			}
		}
	}
}

// TestKilledWhileDestroying kills the daemon at random moments while it destroys
// sessions. Each of them is then alive or has ended, with everything it ever wrote.
func TestKilledWhileDestroying(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", "1", "--log-level", "error"))
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 5))
	for range 12 {
		service := daemon.Client(t)
		id := create(t, service, api.SessionCreateParams{}).SessionID
		list := work(t, service, id)
		ctx, giveUp := context.WithCancel(t.Context()) // else the client would ask the next daemon, too
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			_, _ = service.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: id})
		}()
		time.Sleep(time.Duration(random.IntN(30_000)) * time.Microsecond) // the random moment
		daemon.Kill9()
		giveUp()
		<-asked
		daemon.Restart(t)
		service = daemon.Client(t)
		// The session lives if the runner did not get the request. If it did, the session has
		// ended or ends at any moment.
		r, err := service.ExecRun(context.Background(), api.ExecParams{SessionID: id, Command: "echo alive"})
		if err == nil {
			if !r.Cancelled && (r.Stdout != "alive\n" || r.ExitCode != 0) {
				t.Errorf("stdout %q, stderr %q, exit_code %d", r.Stdout, r.Stderr, r.ExitCode)
			}
			list = append(list, wrote{r.ExecID, r.Stdout, r.ExitCode})
			destroy(t, service, id)
		} else if !errors.Is(err, api.ErrSessionTerminated) {
			t.Fatalf("exec.run: %s", err)
		}
		testkit.Eventually(t, "the session has ended", func() bool {
			info, err := service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: id})
			return err == nil && info.State == api.SessionTerminated
		})
		readPast(t, service, id, list)
		if t.Failed() {
			return
		}
	}
}

// TestTotalOutput lets sessions write more than all of them may keep. What has ended
// goes first, then the middle of live output, and every reader gets the gap.
func TestTotalOutput(t *testing.T) {
	const most = 60 << 20
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", "1", "--total-output-bytes", fmt.Sprint(most), "--output-bytes", "40MiB", "--session-output-bytes", "80MiB"))
	service := daemon.Client(t)
	ctx := context.Background()
	ended := create(t, service, api.SessionCreateParams{}).SessionID
	old := run(t, service, ended, "head -c 20000000 /dev/zero").ExecID
	destroy(t, service, ended)
	var ids, execs []string
	for range 3 {
		id := create(t, service, api.SessionCreateParams{}).SessionID
		run(t, service, id, "head -c 12000000 /dev/zero")
		// exec.start, because the stream that starts a command would block it.
		if _, err := service.ExecStart(ctx, api.ExecParams{SessionID: id, Command: "echo up; head -c 16000000 /dev/zero; echo done >&2; sleep 28.9"}); err != nil {
			t.Fatal(err)
		}
		ids, execs = append(ids, id), append(execs, fmt.Sprintf("x-%s-2", id[2:]))
	}
	testkit.EventuallyNoProblem(t, func() string {
		total := int64(0)
		for i, id := range ids {
			info, err := service.SessionInfo(ctx, api.SessionInfoParams{SessionID: id})
			if err != nil {
				return err.Error()
			}
			total += info.OutputBytes
			if x, err := service.ExecInfo(ctx, api.ExecInfoParams{ExecID: execs[i]}); err != nil || x.StderrBytes == 0 {
				return fmt.Sprintf("%s is not there yet: %v", execs[i], err)
			}
		}
		if total > most {
			return fmt.Sprintf("%d bytes are kept, %d is the most", total, most)
		}
		return ""
	})
	if _, err := service.ExecOutput(ctx, api.ExecOutputParams{ExecID: old}); !errors.Is(err, api.ErrSessionTerminated) {
		t.Errorf("the output of the session that has ended: %v", err)
	}
	if x, err := service.ExecInfo(ctx, api.ExecInfoParams{ExecID: old}); err != nil || x.StdoutBytes != 20000000 {
		t.Errorf("exec.info of it: %+v, %v", x, err)
	}
	gaps := int64(0)
	for _, id := range ids {
		for n, want := range []int64{12000000, 16000003} {
			limit := int64(0)
			o, err := service.ExecOutput(ctx, api.ExecOutputParams{ExecID: fmt.Sprintf("x-%s-%d", id[2:], n+1), Limit: &limit})
			if err != nil || o.TotalBytes != want {
				t.Errorf("exec.output: %+v, %v", o, err)
				continue
			}
			for _, g := range []*api.Span{o.Gap, o.NextGap} {
				if g != nil {
					gaps += g.To - g.From
				}
			}
		}
	}
	if gaps < 24_000_000 {
		t.Errorf("%d bytes are told to be gone", gaps)
	}
}
