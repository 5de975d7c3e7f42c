package host

import (
	"log/slog"
	"reflect"
	"testing"
)

func TestFindProgram(t *testing.T) {
	p, err := findProgram("/some/runner", t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil || p != "/some/runner" {
		t.Errorf("named: %q, %v", p, err)
	}
}

func TestBaseEnv(t *testing.T) {
	got := baseEnv([]string{
		"A=1", "EMPTY=", "B=x=y", "TRL_STATE_DIR=/x", "TRL_SESSION_ID=s-1", "NOTIFY_SOCKET=/n", "LISTEN_FDS=1", "LISTEN_PID=2", "INVOCATION_ID=i",
		"JOURNAL_STREAM=j", "OLDPWD=/o", "PWD=/p", "SHLVL=2", "_=/bin/x", "TERM=xterm", "=odd", "nonsense",
	})
	want := map[string]string{"A": "1", "EMPTY": "", "B": "x=y", "TERM": "dumb", "PATH": defaultPath}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := runnerEnviron([]string{"A=1", "PATH=/bin", "HOME=/root", "SECRET=x", "GORACE=y"}); !reflect.DeepEqual(got, []string{"GOMAXPROCS=1", "PATH=/bin", "HOME=/root", "GORACE=y"}) {
		t.Errorf("runner: %v", got)
	}
}
