package journal

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/metrics"
)

// wantMetrics compares lines of the metrics of a journal.
func wantMetrics(t *testing.T, j *Journal, lines ...string) {
	t.Helper()
	var p metrics.Page
	j.WriteMetrics(&p)
	for _, line := range lines {
		if !strings.Contains(p.String(), "\n"+line+"\n") {
			t.Errorf("no %s in\n%s", line, p.String())
		}
	}
}

// TestMetricsOfCommands: every command is counted once, whichever of its events arrive.
func TestMetricsOfCommands(t *testing.T) {
	j := New(slog.New(slog.DiscardHandler))
	begin := time.Now()
	j.PublishSession(api.SessionInfo{SessionID: "s-1", State: api.SessionIdle, CreatedAt: begin})
	event := func(id string, state api.ExecState, after time.Duration, o *api.ExecOutcome) {
		say(j, "s-1", link.ExecEvent{ExecID: "x-1-" + id, State: state, At: begin.Add(after), Outcome: o})
	}
	run := func(id string, o api.ExecOutcome) {
		event(id, api.ExecRunning, 0, nil)
		event(id, api.ExecExited, time.Second, &o)
		event(id, api.ExecExited, time.Second, &o) // again, after a new connection
		event(id, api.ExecClosed, time.Second, nil)
	}
	killed := func(n int) []api.KilledProcess { return make([]api.KilledProcess, n) }
	run("1", api.ExecOutcome{DurationMS: 5, StdoutBytes: 100, StderrBytes: 1})
	run("2", api.ExecOutcome{DurationMS: 50, ExitCode: 3, StdoutBytes: 10, ShellRestarted: true})
	run("3", api.ExecOutcome{DurationMS: 2000, ExitCode: 124, TimedOut: true, Killed: killed(3)})
	run("4", api.ExecOutcome{ExitCode: 130, Cancelled: true, Killed: killed(2)})
	run("5", api.ExecOutcome{ExitCode: 130, Cancelled: true, CancelCause: "its caller disconnected", Killed: killed(4)})
	run("6", api.ExecOutcome{ExitCode: 137, OOMKilled: true})
	event("7", api.ExecQueued, 0, nil)
	event("7", api.ExecRunning, 2*time.Second, nil)
	event("8", api.ExecQueued, 0, nil)
	event("8", api.ExecClosed, time.Minute, &api.ExecOutcome{ExitCode: 130, Cancelled: true}) // it never ran
	event("9", api.ExecQueued, 0, nil)
	wantMetrics(t, j,
		`trl_execs{state="queued"} 1`, `trl_execs{state="running"} 1`,
		`trl_execs_ended_total{outcome="zero"} 1`, `trl_execs_ended_total{outcome="nonzero"} 2`, `trl_execs_ended_total{outcome="timeout"} 1`,
		`trl_execs_ended_total{outcome="cancelled"} 3`, `trl_execs_ended_total{outcome="unknown"} 0`,
		`trl_killed_processes_total{cause="timeout"} 3`, `trl_killed_processes_total{cause="cancel"} 2`,
		`trl_killed_processes_total{cause="given_up"} 4`, `trl_killed_processes_total{cause="memory"} 1`,
		`trl_shell_restarts_total 1`, `trl_output_bytes_total{stream="stdout"} 110`, `trl_output_bytes_total{stream="stderr"} 1`,
		`trl_exec_duration_seconds_bucket{le="0.01"} 4`, `trl_exec_duration_seconds_bucket{le="0.1"} 5`, `trl_exec_duration_seconds_count 6`,
		`trl_exec_wait_seconds_bucket{le="1"} 0`, `trl_exec_wait_seconds_bucket{le="10"} 1`, `trl_exec_wait_seconds_count 1`)

	j.PublishReachability(api.SessionInfo{SessionID: "s-1", State: api.SessionRunning})
	j.PublishNetwork(api.SessionInfo{SessionID: "s-1"}, link.NetworkEvent{NetworkDecision: api.NetworkDecision{Count: 7}})
	j.PublishSession(api.SessionInfo{SessionID: "s-1", State: api.SessionTerminated, Cause: "its runner was killed"})
	wantMetrics(t, j, `trl_execs{state="queued"} 0`, `trl_execs{state="running"} 0`, `trl_execs_ended_total{outcome="unknown"} 2`,
		`trl_sessions_created_total 1`, `trl_sessions_ended_total 1`, `trl_sessions_lost_total 1`,
		`trl_network_connections_total{decision="refused"} 7`, `trl_network_connections_total{decision="allowed"} 0`)
	if len(j.counts.queued) > 0 {
		t.Errorf("commands that ended wait: %v", j.counts.queued)
	}
}

func TestMetricsOfDialogues(t *testing.T) {
	j := New(slog.New(slog.DiscardHandler))
	begin := time.Now()
	publish := func(kind, request string, after time.Duration, state api.DialogueState) {
		at := begin.Add(after)
		j.PublishDialogue(api.StreamEvent{Type: kind, At: &at, DialogueID: "d-1", SessionID: "s-1", RequestID: request, State: state})
	}
	publish(api.EventDialogueCreated, "", 0, api.DialogueStarting)
	publish(api.EventDialogueRequestOpened, "r1", 0, api.DialogueRequiresAction)
	publish(api.EventDialogueRequestOpened, "r2", 0, api.DialogueRequiresAction)
	publish(api.EventDialogueRequestClosed, "r1", 5*time.Second, api.DialogueRunning)
	publish(api.EventDialogueTurnEnded, "", time.Minute, api.DialogueIdle)
	publish(api.EventDialogueTurnEnded, "", time.Minute, api.DialogueIdle)
	wantMetrics(t, j, `trl_dialogues{state="idle"} 1`, `trl_dialogues{state="ended"} 0`, `trl_dialogue_turns_total 2`,
		`trl_dialogue_request_wait_seconds_bucket{le="1"} 0`, `trl_dialogue_request_wait_seconds_bucket{le="10"} 1`, `trl_dialogue_request_wait_seconds_count 1`)
	publish(api.EventDialogueEnded, "", time.Hour, api.DialogueEnded)
	wantMetrics(t, j, `trl_dialogues{state="ended"} 1`)
	if len(j.counts.requests) > 0 {
		t.Errorf("requests of an ended dialogue wait: %v", j.counts.requests)
	}
}

// TestMetricsBeginWithTheDaemon: counters begin at 0 with each daemon, and gauges know what lives.
func TestMetricsBeginWithTheDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	j, err := Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	j.PublishSession(api.SessionInfo{SessionID: "s-1", State: api.SessionIdle, CreatedAt: time.Now()})
	say(j, "s-1", link.ExecEvent{ExecID: "x-1-1", State: api.ExecRunning, At: time.Now()})
	j.Close()
	if j, err = Open(path, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	wantMetrics(t, j, `trl_sessions_created_total 0`, `trl_execs{state="running"} 1`)
}
