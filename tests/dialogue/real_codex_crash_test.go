package dialogue_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestCodexKilled: after kill -9 nothing of the agent is left, its record is closed, and the
// dialogue is resumed with what the agent knew.
func TestCodexKilled(t *testing.T) {
	for name, death := range deaths {
		t.Run(name, func(t *testing.T) {
			r := useCodex(t).open()
			r.talk("plain")
			f := r.ask(death.script)
			death.until(r, f)
			r.kill()
			f.drain()
			r.closed(f, map[bool]string{true: "exited", false: "unexpected_exit"}[name == "at rest"])
			r.nothingLeft()
			r.resumed()
		})
	}
}

// TestCodexDaemonRestarts: the daemon is killed in the middle of a turn and while a request
// waits; the agent goes on, and what it said meanwhile is not lost.
func TestCodexDaemonRestarts(t *testing.T) {
	r := useCodex(t)
	r.params.PermissionMode = "on-request/workspace-write"
	r.open()
	f := r.ask("gate")
	f.running()
	f.close()
	r.restart(func() { r.touch("go") })
	f = r.follow(r.id, 0)
	if turn := f.rest(); turn.Outcome != "completed" {
		t.Errorf("after the restart: %+v", turn)
	}
	f.close()

	f = r.ask("touch")
	q := f.request()
	f.close()
	r.restart(nil)
	testkit.Eventually(t, "the request waits again", func() bool { return r.info(r.id).State == api.DialogueRequiresAction })
	tr := r.transcript(r.id)
	if len(tr.Requests) != 1 || tr.Requests[0].RequestID != q.RequestID || tr.Requests[0].How != "" {
		t.Errorf("requests after the restart: %+v", tr.Requests)
	}
	if err := r.answers(q, api.DialogueRespondParams{Decision: "allow"}); err != nil {
		t.Fatal(err)
	}
	f = r.follow(r.id, tr.Seq)
	if turn := f.rest(); turn.Outcome != "completed" || !r.exists("allowed.txt") {
		t.Errorf("it was allowed after the restart: %+v", turn)
	}
	f.close()

	f = r.ask("hold")
	f.held()
	f.close()
	r.restart(nil)
	seq := r.transcript(r.id).Seq
	testkit.Must(r.DialogueInterrupt(r.ctx, api.DialogueInterruptParams{DialogueID: r.id}))(r.world)
	if turn := r.follow(r.id, seq).rest(); turn.Outcome != "interrupted" {
		t.Errorf("interrupted after the restart: %+v", turn)
	}
	r.looks(`
		user: [[gate]]
		agent: A command that waits.
		tool_call commandExecution completed "until [ -e go ]; do sleep 0.05; done; echo went": went\n
		agent: After the command that waits.
		user: [[touch]]
		agent: It needs to be allowed.
		tool_call commandExecution completed "touch allowed.txt":
		agent: That step is over.
		user: [[hold]]
		agent (aborted): This answer begins and has no end.
		turn by user: completed
		turn by user: completed
		turn by user: interrupted
		request permission commandExecution: answered allow
	`)
	r.same()
}

// TestCodexDiesAlone: what happens while there is no daemon is told by the next one.
func TestCodexDiesAlone(t *testing.T) { useCodex(t).open().diesAlone() }

// TestCodexFigures: an answer of the model takes 10 tokens in and 5 out.
func TestCodexFigures(t *testing.T) { useCodex(t).open().figures(5) }

// TestCodexTerminates: with a command that runs; nothing is left.
func TestCodexTerminates(t *testing.T) {
	r := useCodex(t).open()
	f := r.ask("long")
	r.file("started")
	info := r.terminate(r.id)
	if info.State != api.DialogueEnded || info.Ended == nil || info.Ended.Cause != "closed" {
		t.Errorf("terminated: %+v", info)
	}
	if left := r.processes(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	r.nothingLeft()
	f.drain()
	allClosed(t, r.transcript(r.id).Items)
	r.resume()
	if turn := r.talk("turn2"); turn.Outcome != "completed" {
		t.Errorf("resumed: %+v", turn)
	}
}

// TestCodexFaults: what goes wrong at the model is told, the retries too.
func TestCodexFaults(t *testing.T) {
	r := useCodex(t).open()
	for script, text := range map[string]string{"busy": "Answered after two refusals.", "cut": "The connection is cut in the middle of this sentence."} {
		f := r.ask(script)
		if turn := f.rest(); turn.Outcome != "completed" || turn.Text != text {
			t.Errorf("%s: %+v", script, turn)
		}
		if script == "cut" && count(f.events, api.DialogueEventRetry) != 1 {
			t.Errorf("%s: %d retries:\n%s", script, count(f.events, api.DialogueEventRetry), brief(f.events))
		}
	}
	for script, retries := range map[string]int{"err400": 0, "err401": 3} {
		f := r.ask(script)
		if turn := f.rest(); turn.Outcome != "failed" || !strings.Contains(turn.Text, "scripted 40") || count(f.events, api.DialogueEventRetry) != retries {
			t.Errorf("%s: %+v\n%s", script, turn, brief(f.events))
		}
	}
	if turn := r.talk("turn1"); turn.Outcome != "completed" {
		t.Errorf("after the faults: %+v", turn)
	}
	r.same()
}

// TestCodexHuge: an answer of 2 MiB comes whole, in one line of the program.
func TestCodexHuge(t *testing.T) {
	r := useCodex(t).open()
	r.hugeAnswer("huge", 2<<20)
}

// TestCodexDoesNotStart: what keeps the program from starting is told, and nothing is left.
func TestCodexDoesNotStart(t *testing.T) {
	r := useCodex(t)
	for name, c := range map[string]struct {
		text   string
		change func(p *api.DialogueCreateParams)
	}{
		"flag":    {"--no-such-flag", func(p *api.DialogueCreateParams) { p.Argv = append(p.Argv[:1:1], "--no-such-flag") }},
		"missing": {"no-such-program", func(p *api.DialogueCreateParams) { p.Argv = []string{filepath.Join(r.dir, "no-such-program")} }},
		"resume":  {"00000000-0000-4000-8000-000000000000", func(p *api.DialogueCreateParams) { p.Resume = "00000000-0000-4000-8000-000000000000" }},
	} {
		p := r.params
		p.Name = name
		c.change(&p)
		_, err := r.DialogueCreate(r.ctx, p)
		testkit.WantError(t, err, api.CodeAgentFailed, c.text)
	}
	for _, s := range testkit.Must(r.SessionList(r.ctx, api.SessionListParams{}))(r.world).Sessions {
		if s.State != api.SessionTerminated {
			t.Errorf("session left: %+v", s)
		}
	}
	if list := testkit.Must(r.DialogueList(r.ctx, api.DialogueListParams{}))(r.world).Dialogues; len(list) != 0 {
		t.Errorf("dialogues: %+v", list)
	}
	testkit.Eventually(t, "no process of the agent is left", func() bool { return len(carriers("HOME="+r.params.Env["HOME"])) == 0 })
}
