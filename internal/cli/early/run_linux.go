package early

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/words"
	"github.com/trl-dev/trl/internal/wire"
)

func init() {
	if session, args, ok := Parse(os.Args); ok {
		handover = run(session, args)
	}
}

// run runs the command and exits with its status. If that is not possible, it returns the command
// unfinished, or without a stream if it was not started, or nil.
//
// It prepares each step while the daemon works on the one before. encoding/json analyses a type when
// it meets it first, and that takes as long as the daemon needs for its answer.
func run(name string, args []string) *Handover {
	if _, flag := words.Wanted(args); flag != "" && isTerminal(unix.Stderr) {
		return nil // the usual path prints a hint
	}
	detach, id := false, runID()
	p := api.ExecParams{SessionID: name, Detach: &detach, RunID: id}
	c := dial(Sockets(os.Environ()))
	if c == nil {
		return nil
	}
	if id == "" || !c.askFor(name) {
		c.close()
		return nil
	}
	h := &Handover{Signals: Catch()}
	c.signals = h.Signals
	_, _ = c.request(idStream, "exec.stream", api.ExecStreamParams{ExecParams: p})
	prepare(&sessions{})
	var ok bool
	if h.Session, ok = c.found(); !ok {
		c.close()
		return h
	}
	words.Fill(&p, args, h.Session)
	request, ok := c.request(idStream, "exec.stream", api.ExecStreamParams{ExecParams: p})
	c.until = time.Now().Add(patience)
	if !ok || !c.send(request) {
		c.close()
		return h
	}
	prepare(&api.ExecOutcome{})
	h.Stream = &wire.Begun{FD: c.fd, RunID: id, Printed: map[string]int64{api.EventStdout: 0, api.EventStderr: 0}}
	if status, ended := c.follow(h.Stream.Printed); ended {
		os.Exit(status)
	}
	h.Stream.Received = c.received
	return h
}

// prepare makes encoding/json analyse the type of v.
func prepare(v any) { _ = json.Unmarshal([]byte("{}"), v) }

// runID returns a new id, as unique as those of package client.
func runID() string {
	var b [16]byte
	if n, err := unix.Getrandom(b[:], 0); err != nil || n < len(b) {
		return ""
	}
	return hex.EncodeToString(b[:])
}

// askFor asks for the session that the user named.
func (c *conversation) askFor(name string) bool {
	limit := 1000 // as the usual path has it
	request, ok := c.request(idList, "session.list", api.SessionListParams{SessionIDs: []string{name}, Page: api.Page{Limit: &limit}})
	return ok && c.send(request)
}

// sessions is api.SessionListResult with only the fields that matter here.
type sessions struct {
	Sessions []struct {
		State       api.SessionState `json:"state"`
		Shell       string           `json:"shell"`
		ShellFamily string           `json:"shell_family"`
	} `json:"sessions"`
	Next string `json:"next"`
}

// found returns the answer to askFor, if the session exists and can run a command.
func (c *conversation) found() (info api.SessionInfo, ok bool) {
	m, ok := c.message()
	if !ok || m.Error != nil || string(m.ID) != idText(idList) || !c.takeAll() {
		return info, false
	}
	var list sessions
	if json.Unmarshal(m.Data, &list) != nil || list.Next != "" || len(list.Sessions) == 0 || list.Sessions[0].State == api.SessionCreating {
		return info, false
	}
	s := list.Sessions[0]
	return api.SessionInfo{State: s.State, Shell: s.Shell, ShellFamily: s.ShellFamily}, true
}

// follow prints the output of the command as it comes, and counts it in printed. It returns the
// status of a command that has ended, unless there is more to say about its end.
func (c *conversation) follow(printed map[string]int64) (status int, ended bool) {
	var body []byte
	for answered := false; ; answered = true {
		m, ok := c.message()
		switch {
		case !ok:
			return 0, false
		case !answered:
			if m.Error != nil || m.Event != nil || string(m.ID) != idText(idStream) {
				return 0, false
			}
			continue
		case m.Event == nil:
			return 0, false
		}
		switch ev := m.Event; ev.Type {
		case api.EventStdout, api.EventStderr:
			data := api.Data(ev.Data, ev.DataBase64)
			if m.Raw > 0 {
				var err error
				if data, err = c.reader.Body(m.Raw, body); err != nil {
					return 0, false
				}
				body = data
			}
			if ev.Offset == nil || *ev.Offset != printed[ev.Type] {
				return 0, false
			}
			fd := unix.Stdout
			if ev.Type == api.EventStderr {
				fd = unix.Stderr
			}
			n := c.print(fd, data)
			if printed[ev.Type] += int64(n); n < len(data) {
				return 0, false
			}
		case api.EventExit:
			return ev.ExitCode, plain(ev.ExecOutcome)
		default:
			return 0, false
		}
	}
}

// plain reports whether the status says everything about the end of a command.
func plain(o *api.ExecOutcome) bool {
	return !o.TimedOut && o.CancelCause == "" && !o.OOMKilled && o.Usage.ForksRefused == 0 && o.Limits == nil
}
