package terminal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestNothingIsLeft after many viewers and many terminals: no goroutine and no descriptor
// of the daemon, no descriptor of the runner, no process, no file.
func TestNothingIsLeft(t *testing.T) {
	w := start(t)
	info := w.terminal("a", "sh", "-c", `while read x; do echo "got $x"; done`)
	runner := testkit.Must(w.SessionInfo(w.ctx, api.SessionInfoParams{SessionID: "a"}))(w).RunnerPID
	look := func(n int) {
		v := testkit.Must(w.SessionAttach(w.ctx, api.SessionAttachParams{SessionID: "a", Size: size(80+n%3, 24), TakeSize: n%2 == 0}))(w)
		defer v.Close()
		if ev, err := v.Recv(); err != nil || ev.Type != api.EventSnapshot {
			t.Errorf("%+v, %v", ev, err)
		}
		if n%5 == 0 {
			w.types("a", fmt.Sprint(n), "enter")
		}
	}
	make1 := func(n int) {
		kind := api.KindTerminal
		if n%2 == 0 {
			kind = api.KindProgram
		}
		s := testkit.Must(w.SessionCreate(w.ctx, api.SessionCreateParams{Kind: kind, Command: []string{"cat"}}))(w)
		testkit.Must(w.SessionDestroy(w.ctx, api.SessionDestroyParams{SessionID: s.SessionID, Force: n%3 == 0}))(w)
	}
	many := func(n int, f func(n int)) {
		var all sync.WaitGroup
		for part := range 4 {
			all.Go(func() {
				for i := part; i < n; i += 4 {
					f(i)
				}
			})
		}
		all.Wait()
	}
	many(20, look) // what is made once is made
	many(8, make1)
	w.viewers("a", 0)
	before, fds := trltest.Settled(w.ctx, w.T, w.Client, nil), descriptors(t, runner)
	many(500, look)
	many(200, make1)
	w.viewers("a", 0)
	after := trltest.Settled(w.ctx, w.T, w.Client, &before)
	if after.OpenFDs > before.OpenFDs || after.Goroutines > before.Goroutines {
		t.Errorf("before: %d descriptors, %d goroutines; after: %d, %d", before.OpenFDs, before.Goroutines, after.OpenFDs, after.Goroutines)
	}
	if n := descriptors(t, runner); n > fds {
		t.Errorf("the runner had %d descriptors and has %d", fds, n)
	}
	if dirs, _ := filepath.Glob(filepath.Join(w.daemon.RuntimeDir, "s-*")); len(dirs) != 1 || filepath.Base(dirs[0]) != info.SessionID {
		t.Errorf("directories of sessions: %q", dirs)
	}
}

func descriptors(t *testing.T, pid int) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
