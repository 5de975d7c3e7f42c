package soak_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestVersionSkew: a new daemon goes on with the runners of the version before, and a
// daemon of the version before with new runners.
func TestVersionSkew(t *testing.T) {
	old := trltest.Older(t)
	for name, c := range map[string]struct{ first, second string }{
		"old runner, new daemon": {old, trltest.Binary(t)},
		"new runner, old daemon": {trltest.Binary(t), old},
	} {
		t.Run(name, func(t *testing.T) {
			daemon := trltest.Start(t, trltest.Use(c.first))
			service := daemon.Client(t)
			id := create(t, service, api.SessionCreateParams{Name: "skew"}).SessionID
			run(t, service, id, "X=kept; cd /usr")
			stream, err := service.ExecStream(context.Background(), api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: id, Command: "echo up; sleep 0.5; echo done"}})
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			daemon.Kill9()
			daemon.Use(c.second)
			daemon.Restart(t)
			service = daemon.Client(t)
			testkit.EventuallyNoProblem(t, func() string {
				info, err := service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: id})
				if err != nil || info.State != api.SessionIdle {
					return fmt.Sprintf("%s, %v", info.State, err)
				}
				return ""
			})
			says(t, service, "skew", "echo $X $PWD", "kept /usr\n")
			out, err := service.ExecOutput(context.Background(), api.ExecOutputParams{ExecID: stream.Start().ExecID})
			if err != nil || out.Data != "up\ndone\n" {
				t.Errorf("exec.output: %+v, %v", out, err)
			}
			if c.first == old {
				// A new session of the new daemon has it all. No later call isolates a session, so an
				// older runner need not refuse one.
				fresh := create(t, service, api.SessionCreateParams{Kind: api.KindTerminal, Command: []string{"cat"}, Record: true}).SessionID
				if _, err := service.SessionInput(context.Background(), api.SessionInputParams{SessionID: fresh, Text: "new", Keys: []string{"enter"}}); err != nil {
					t.Error(err)
				}
			}
			destroy(t, service, id)
		})
	}
}

// TestRecordedTerminalOfAnotherVersion: a daemon goes on with the recorded terminal of the version
// before or after it: it reads its output and its recording, and ends it.
func TestRecordedTerminalOfAnotherVersion(t *testing.T) {
	old := trltest.Older(t)
	for name, c := range map[string]struct{ first, second string }{
		"old runner, new daemon": {old, trltest.Binary(t)},
		"new runner, old daemon": {trltest.Binary(t), old},
	} {
		t.Run(name, func(t *testing.T) {
			daemon := trltest.Start(t, trltest.Use(c.first))
			service := daemon.Client(t)
			info := create(t, service, api.SessionCreateParams{Kind: api.KindTerminal, Command: []string{"sh", "-c", "echo up; sleep 1000"}, Record: true})
			testkit.EventuallyNoProblem(t, func() string {
				out, err := service.ExecOutput(context.Background(), api.ExecOutputParams{ExecID: info.ExecID})
				if err != nil || out.Data != "up\r\n" {
					return fmt.Sprintf("%+v, %v", out, err)
				}
				return ""
			})
			daemon.Kill9()
			daemon.Use(c.second)
			daemon.Restart(t)
			service = daemon.Client(t)
			testkit.EventuallyNoProblem(t, func() string {
				now, err := service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: info.SessionID})
				if err != nil || now.State != api.SessionRunning || now.ExecID != info.ExecID {
					return fmt.Sprintf("%+v, %v", now, err)
				}
				return ""
			})
			if out, err := service.ExecOutput(context.Background(), api.ExecOutputParams{ExecID: info.ExecID}); err != nil || out.Data != "up\r\n" {
				t.Errorf("%+v, %v", out, err)
			}
			destroy(t, service, info.SessionID)
			r, err := service.SessionRecording(context.Background(), api.SessionRecordingParams{SessionID: info.SessionID})
			if err != nil || !r.Complete || !strings.Contains(r.Data, "up") {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}
