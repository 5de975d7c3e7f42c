package host_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/testkit"
)

func (p place) recordings() string { return filepath.Join(p.state, "recordings") }

// kept is the daemon's file with the recording of a session.
func (p place) kept(s *session.Session) []byte {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.recordings(), s.ID()+".cast"))
	if err != nil {
		p.t.Error(err)
	}
	return text
}

// recordedTerminal starts a terminal that waits for a line and then ends, and waits for its output.
func recordedTerminal(d daemon) *session.Session {
	d.t.Helper()
	s := d.create(api.SessionCreateParams{Kind: api.KindTerminal, Command: []string{"sh", "-c", "echo begun; read x; echo over"}, Record: true})
	if r, err := s.Await(d.t.Context(), api.SessionWaitParams{Text: "begun"}); err != nil || r.Reason != api.WaitText {
		d.t.Fatalf("%+v, %v", r, err)
	}
	return s
}

// TestRecording: the daemon has the whole recording, whether the runner writes it into the daemon's
// directory or keeps it until the daemon fetches it; also when the daemon changes and the session
// ends in between.
func TestRecording(t *testing.T) {
	for _, shared := range []bool{true, false} {
		for _, alone := range []bool{true, false} {
			p := newPlace(t)
			if shared {
				p.recordDir = p.recordings()
			}
			d := p.start()
			s := recordedTerminal(d)
			pid := runnerPID(t, s)
			details, err := s.Details(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			last := "over"
			if alone {
				last = `"x", "137"`
				d.leave()
				_ = syscall.Kill(details.ShellPID, syscall.SIGKILL)
				d = p.start()
				if s, err = d.Get(s.ID()); err != nil {
					t.Fatal(err)
				}
			} else if _, err := s.Type(t.Context(), link.SessionInputParams{Keys: []string{"enter"}}, nil); err != nil {
				t.Fatal(err)
			}
			wantDone(t, s)
			if cast := p.kept(s); !bytes.HasPrefix(cast, []byte(`{"version":3`)) || !bytes.Contains(cast, []byte("begun")) || !bytes.Contains(cast, []byte(last)) || !bytes.HasSuffix(cast, []byte("\n")) {
				t.Errorf("shared %v, alone %v: %s", shared, alone, cast)
			}
			if syscall.Kill(pid, 0) == nil {
				t.Error("the runner lives")
			}
			d.stop()
		}
	}
}

// TestRecordingOutlivesItsRunner: on this machine nothing of it is lost when the runner is killed.
func TestRecordingOutlivesItsRunner(t *testing.T) {
	p := newPlace(t)
	p.recordDir = p.recordings()
	d := p.start()
	defer d.stop()
	s := recordedTerminal(d)
	testkit.Eventually(t, "the output is recorded", func() bool { return bytes.Contains(p.kept(s), []byte("begun")) })
	_ = syscall.Kill(runnerPID(t, s), syscall.SIGKILL)
	wantDone(t, s)
	r, err := s.Recording(t.Context(), api.SessionRecordingParams{})
	if recording := s.Info().Terminal.Recording; err != nil || !strings.Contains(r.Data, "begun") || recording.Stopped != "" {
		t.Errorf("%s, %+v, %v", r.Data, recording, err)
	}
}
