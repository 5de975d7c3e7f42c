package soak_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/tests/trltest"
)

// protocol1 is the last commit whose runners speak protocol 1.
const protocol1 = "20f997e81b4eab6c2e3192f6d4a5de50ef4f2b97"

// before builds the trl of protocol1.
func before(t *testing.T) string {
	t.Helper()
	if exec.Command("git", "cat-file", "-e", protocol1+"^{commit}").Run() != nil {
		fmt.Fprintln(os.Stderr, "SKIPPED: the history is not there; runners of the version before are not tested")
		t.SkipNow()
	}
	dir := t.TempDir()
	build := exec.Command("sh", "-c", "mkdir src && git -C \"$0\" archive "+protocol1+" | tar x -C src && cd src && go build -o .. ./cmd/trl ./cmd/trl-runner", root(t))
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %s\n%s", err, out)
	}
	return filepath.Join(dir, "trl")
}

func root(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestVersionSkew: a new daemon goes on with the runners of the version before, and a
// daemon of the version before with new runners. What an old runner cannot do is said.
func TestVersionSkew(t *testing.T) {
	old := before(t)
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
			eventually(t, func() string {
				info, err := service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: id})
				if err != nil || info.State != api.SessionIdle {
					return fmt.Sprintf("%s, %v", info.State, err)
				}
				return ""
			})
			says(t, service, "skew", "echo $X $PWD", "kept /usr\n")
			if c.first == old {
				var failed *api.Error
				_, err := service.ExecOutput(context.Background(), api.ExecOutputParams{ExecID: stream.Start().ExecID})
				if !errors.As(err, &failed) || failed.Code != api.CodeRuntimeUnavailable || !strings.Contains(failed.Message, "create a new session") {
					t.Errorf("exec.output of an old runner: %v", err)
				}
				// A new session of the new daemon has it all.
				fresh := create(t, service, api.SessionCreateParams{}).SessionID
				x := run(t, service, fresh, "echo new")
				if out, err := service.ExecOutput(context.Background(), api.ExecOutputParams{ExecID: x.ExecID}); err != nil || out.Data != "new\n" {
					t.Errorf("exec.output: %+v, %v", out, err)
				}
			}
			destroy(t, service, id)
		})
	}
}
