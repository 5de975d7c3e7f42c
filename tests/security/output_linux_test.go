package security_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestOutputIsInNoFile lets a command write more than is kept in memory, and looks for
// that in all files that have a name: while it runs, when its session has ended, and
// when another daemon has taken over.
func TestOutputIsInNoFile(t *testing.T) {
	spill := t.TempDir()
	daemon := trltest.Start(t, trltest.Args("--log-level", "debug", "--spill-dir", spill))
	const word = "qX7flood-3e9d51" // never as a whole in the command
	look := func(when string) {
		t.Helper()
		for _, dir := range []string{daemon.StateDir, daemon.RuntimeDir, spill} {
			_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
				if err == nil && e.Type().IsRegular() {
					if data, _ := os.ReadFile(path); bytes.Contains(data, []byte(word)) {
						t.Errorf("%s: output is in %s", when, path)
					}
					if dir == spill {
						t.Errorf("%s: %s has a name", when, path)
					}
				}
				return nil
			})
		}
		if strings.Contains(daemon.Stderr(), word) {
			t.Errorf("%s: output is in the daemon's log", when)
		}
	}
	ctx := context.Background()
	service := daemon.Client(t)
	session, err := service.SessionCreate(ctx, api.SessionCreateParams{})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := service.ExecStream(ctx, api.ExecStreamParams{ExecParams: api.ExecParams{
		SessionID: session.SessionID, Command: `yes "qX7""flood-3e9d51" | head -c 12000000; echo up >&2; sleep 60`}})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	exec, seen := stream.Start().ExecID, false
	for {
		ev, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		seen = seen || strings.Contains(ev.Data, word)
		if ev.Type == api.EventStderr {
			break
		}
	}
	info, err := service.SessionInfo(ctx, api.SessionInfoParams{SessionID: session.SessionID})
	if err != nil || !seen || info.OutputBytes < 12000000 {
		t.Fatalf("the word was seen: %v; %d bytes are kept; %v", seen, info.OutputBytes, err)
	}
	if !hasUnnamed(info.RunnerPID, spill) {
		t.Error("the runner has no file without a name: this test proves nothing")
	}
	look("while it runs")
	if _, err := service.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: session.SessionID}); err != nil {
		t.Fatal(err)
	}
	look("when the session has ended")
	read := func() {
		t.Helper()
		for offset := int64(0); offset < 12000000; {
			o, err := service.ExecOutput(ctx, api.ExecOutputParams{ExecID: exec, Offset: offset, Limit: new(int64(4 << 20))})
			if err != nil || o.NextOffset == offset || !strings.Contains(o.Data, word) {
				t.Fatalf("exec.output at %d: next %d, %v", offset, o.NextOffset, err)
			}
			offset = o.NextOffset
		}
		look("when the output has been read")
	}
	read()
	daemon.Kill9()
	look("without a daemon")
	daemon.Restart(t)
	service = daemon.Client(t)
	read()
	daemon.Stop(t)
	look("at the end")
}

// hasUnnamed reports whether a process has a file in dir that has no name.
func hasUnnamed(pid int, dir string) bool {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range fds {
		if to, _ := os.Readlink(fd); strings.HasPrefix(to, dir) && strings.HasSuffix(to, " (deleted)") {
			return true
		}
	}
	return false
}
