package journal

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// TestRepeatedDecisions: a runner sends its last decisions on each connection. The journal publishes each
// of them once, also after a restart and in a new file, and counts those that the runner has dropped.
func TestRepeatedDecisions(t *testing.T) {
	for name, maxFile := range map[string]int64{"one file": maxFileSize, "a new file each time": 1} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "events")
			var j *Journal
			restart := func() {
				if j != nil {
					j.Close()
				}
				var err error
				if j, err = Open(path, slog.New(slog.DiscardHandler)); err != nil {
					t.Fatal(err)
				}
				j.maxFile = maxFile
			}
			restart()
			defer func() { j.Close() }()
			info := api.SessionInfo{SessionID: "s-1", State: api.SessionIdle, CreatedAt: time.Now()}
			event := func(port int, allowed bool, count, total int64) link.NetworkEvent {
				return link.NetworkEvent{Allowed: allowed, At: time.Now(), Total: total, NetworkDecision: api.NetworkDecision{Host: "a.example", Port: port, Count: count}}
			}
			connect := func(want string, list ...link.NetworkEvent) {
				t.Helper()
				before := j.Last()
				for _, e := range list {
					j.PublishNetwork(info, e)
				}
				var got []string
				events, _ := j.Read(before, 100)
				for _, ev := range events {
					got = append(got, fmt.Sprintf("%s %d*%d", strings.TrimPrefix(ev.Type, "network."), ev.Network.Port, ev.Network.Count))
				}
				if text := strings.Join(got, ", "); text != want {
					t.Errorf("got %s, want %s", text, want)
				}
			}
			first, second, third := event(1, true, 1, 1), event(2, false, 3, 3), event(3, true, 1, 2)
			connect("allowed 1*1", first)
			restart() // before the creation of the session is published
			j.PublishCreated(info, "", nil)
			connect("refused 2*3", first, second)
			restart()
			connect("", first, second)
			connect("allowed 3*1", first, second, third)
			restart()
			connect("allowed 0*5, allowed 9*2", third, event(9, true, 2, 9))
			restart()
			connect("", third, event(9, true, 2, 9))
			connect("refused 7*1, refused 7*1", event(7, false, 1, 0), event(7, false, 1, 0)) // of an older runner
			info.State = api.SessionTerminated
			j.PublishSession(info)
			if len(j.network) > 0 {
				t.Errorf("after the end: %v", j.network)
			}
		})
	}
}
