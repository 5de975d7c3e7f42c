package journal

import (
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/metrics"
)

// counts has what the journal has published since it was opened, for /metrics. Events are counted
// where they are published, so counting delays no command. Journal.mu guards it.
type counts struct {
	created, terminated, unreachable int64
	ended                            [len(outcomes)]int64 // commands, by outcome
	killed                           [len(killCauses)]int64
	shellRestarts                    int64
	stdout, stderr                   int64 // bytes of ended commands
	duration, wait                   *metrics.Histogram
	queued                           map[string]time.Time // since when commands wait, by id
	allowed, refused                 int64                // connections
	turns                            int64
	requestWait                      *metrics.Histogram
	requests                         map[requestKey]time.Time // since when requests wait
}

type requestKey struct{ dialogue, request string }

// The ways in which a command ends, and their words in /metrics.
const (
	outcomeZero = iota
	outcomeNonZero
	outcomeTimeout
	outcomeCancelled
	outcomeUnknown // no daemon learned it, because the session ended first
)

var outcomes = [...]string{"zero", "nonzero", "timeout", "cancelled", "unknown"}

// Why processes were killed, and the words in /metrics.
const (
	killTimeout = iota
	killCancel
	killGivenUp
	killMemory
)

var killCauses = [...]string{"timeout", "cancel", "given_up", "memory"}

func newCounts() counts {
	const ms = time.Millisecond
	return counts{
		duration:    metrics.NewHistogram(10*ms, 100*ms, time.Second, 10*time.Second, time.Minute, 10*time.Minute, time.Hour),
		wait:        metrics.NewHistogram(10*ms, 100*ms, time.Second, 10*time.Second, time.Minute, 10*time.Minute),
		requestWait: metrics.NewHistogram(100*ms, time.Second, 10*time.Second, time.Minute, 10*time.Minute, time.Hour),
		queued:      map[string]time.Time{},
		requests:    map[requestKey]time.Time{},
	}
}

// countLocked counts an event that is being published. Its effect is not applied yet.
func (j *Journal) countLocked(ev *api.StreamEvent) {
	c := &j.counts
	switch ev.Type {
	case api.EventSessionCreated:
		c.created++
	case api.EventSessionTerminated:
		c.terminated++
	case api.EventSessionUnreachable:
		c.unreachable++
	case api.EventExecQueued:
		c.queued[ev.ExecID] = *ev.At
	case api.EventExecRunning:
		if since, ok := c.queued[ev.ExecID]; ok {
			c.wait.Observe(ev.At.Sub(since))
			delete(c.queued, ev.ExecID)
		}
	case api.EventExecExited:
		c.end(ev.ExecOutcome)
		if o := ev.ExecOutcome; o != nil {
			c.duration.Observe(time.Duration(o.DurationMS) * time.Millisecond)
		}
	case api.EventExecClosed:
		delete(c.queued, ev.ExecID)
		if p := j.sessions[ev.SessionID]; p == nil || p.Open[ev.ExecID] != api.ExecExited { // it never ran, or its outcome is lost
			c.end(ev.ExecOutcome)
		}
	case api.EventNetworkAllowed:
		c.allowed += ev.Network.Count
	case api.EventNetworkRefused:
		c.refused += ev.Network.Count
	default:
		c.dialogue(ev)
	}
}

// end counts the end of a command.
func (c *counts) end(o *api.ExecOutcome) {
	if o == nil {
		c.ended[outcomeUnknown]++
		return
	}
	outcome, cause := outcomeZero, killGivenUp
	switch {
	case o.TimedOut:
		outcome, cause = outcomeTimeout, killTimeout
	case o.Cancelled:
		outcome = outcomeCancelled
		if o.CancelCause == "" {
			cause = killCancel
		}
	case o.ExitCode != 0:
		outcome = outcomeNonZero
	}
	c.ended[outcome]++
	c.killed[cause] += int64(len(o.Killed))
	if o.OOMKilled {
		c.killed[killMemory]++
	}
	if o.ShellRestarted {
		c.shellRestarts++
	}
	c.stdout += o.StdoutBytes
	c.stderr += o.StderrBytes
}

// dialogue counts an event of a dialogue.
func (c *counts) dialogue(ev *api.StreamEvent) {
	key := requestKey{ev.DialogueID, ev.RequestID}
	switch ev.Type {
	case api.EventDialogueTurnEnded:
		c.turns++
	case api.EventDialogueRequestOpened:
		c.requests[key] = *ev.At
	case api.EventDialogueRequestClosed:
		if since, ok := c.requests[key]; ok {
			c.requestWait.Observe(ev.At.Sub(since))
			delete(c.requests, key)
		}
	case api.EventDialogueEnded, api.EventDialogueRemoved:
		for key := range c.requests {
			if key.dialogue == ev.DialogueID {
				delete(c.requests, key)
			}
		}
	}
}

// WriteMetrics writes what the journal has published.
func (j *Journal) WriteMetrics(p *metrics.Page) {
	j.lockDecoded()
	defer j.mu.Unlock()
	c := &j.counts
	p.Single("trl_sessions_created_total", "counter", "Sessions that were created.", float64(c.created))
	p.Single("trl_sessions_ended_total", "counter", "Sessions that ended.", float64(c.terminated))
	p.Single("trl_sessions_lost_total", "counter", "Times that a session became unreachable.", float64(c.unreachable))

	states := map[api.ExecState]int{}
	for _, s := range j.sessions {
		for _, state := range s.Open {
			states[state]++
		}
	}
	p.Family("trl_execs", "gauge", "Commands and programs of live sessions that wait for their turn, or run.")
	for _, state := range []api.ExecState{api.ExecQueued, api.ExecRunning} {
		p.Value("trl_execs", float64(states[state]), "state", string(state))
	}
	p.Family("trl_execs_ended_total", "counter", "Commands and programs that ended, by outcome.")
	for i, word := range outcomes {
		p.Value("trl_execs_ended_total", float64(c.ended[i]), "outcome", word)
	}
	p.Family("trl_exec_duration_seconds", "histogram", "Time from the start to the end of commands and programs.")
	p.Histogram("trl_exec_duration_seconds", c.duration)
	p.Family("trl_exec_wait_seconds", "histogram", "Time that commands spent in the queue of their session.")
	p.Histogram("trl_exec_wait_seconds", c.wait)
	p.Family("trl_killed_processes_total", "counter", "Processes of commands that were killed, by cause.")
	for i, word := range killCauses {
		p.Value("trl_killed_processes_total", float64(c.killed[i]), "cause", word)
	}
	p.Single("trl_shell_restarts_total", "counter", "Shells that a command ended and TRL started again.", float64(c.shellRestarts))
	p.Family("trl_output_bytes_total", "counter", "Bytes that commands and programs wrote, counted at their end.")
	p.Value("trl_output_bytes_total", float64(c.stdout), "stream", api.EventStdout)
	p.Value("trl_output_bytes_total", float64(c.stderr), "stream", api.EventStderr)
	p.Family("trl_network_connections_total", "counter", "Connections that the proxies of isolated sessions decided on.")
	p.Value("trl_network_connections_total", float64(c.allowed), "decision", "allowed")
	p.Value("trl_network_connections_total", float64(c.refused), "decision", "refused")
	j.writeDialoguesLocked(p)
}

func (j *Journal) writeDialoguesLocked(p *metrics.Page) {
	states := map[api.DialogueState]int{}
	for _, d := range j.dialogues {
		states[d.State]++
	}
	p.Family("trl_dialogues", "gauge", "Dialogues by state.")
	for _, state := range []api.DialogueState{
		api.DialogueStarting, api.DialogueIdle, api.DialogueRunning, api.DialogueRequiresAction, api.DialogueError, api.DialogueEnded,
	} {
		p.Value("trl_dialogues", float64(states[state]), "state", string(state))
	}
	p.Single("trl_dialogue_turns_total", "counter", "Turns of agents that ended.", float64(j.counts.turns))
	p.Family("trl_dialogue_request_wait_seconds", "histogram", "Time that requests of agents waited for their answers.")
	p.Histogram("trl_dialogue_request_wait_seconds", j.counts.requestWait)
}
