package terminal_test

import (
	"bytes"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestViewerFarBehind: a viewer that reads nothing while a program writes 12 MB is not given
// all of it afterwards, on any transport, but what was on its way and then a snapshot.
func TestViewerFarBehind(t *testing.T) {
	t.Parallel()
	w := start(t, trltest.Args("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"))
	url, token := w.daemon.HTTP(t)
	ways := map[string]*client.Client{"socket": w.daemon.Client(t)}
	for name, address := range map[string]string{"http": url, "grpc": w.daemon.GRPC(t)} {
		c, err := client.DialURL(w.ctx, address, token)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		ways[name] = c
	}
	// What the buffers of a system take for a connection differs; the limit is far below
	// what the program writes.
	const most = 3 << 20
	mark := []byte("the flood is over")
	for name, c := range ways {
		w.terminal(name, "sh", "-c", `read x; head -c 12000000 /dev/zero | tr '\0' x | fold -w 79; echo the flood is over; sleep 1000`)
		s := testkit.Must(c.SessionAttach(w.ctx, api.SessionAttachParams{SessionID: name}))(w)
		w.types(name, "go\n")
		w.shows(name, string(mark))
		n, snapshots := 0, 0
		var last []byte
		for !bytes.Contains(last, mark) {
			ev := testkit.Must(s.Recv())(w)
			data := api.Data(ev.Data, ev.DataBase64)
			n += len(data)
			last = append(last[max(0, len(last)-len(mark)):], data...)
			if ev.Type == api.EventSnapshot {
				snapshots++
			}
			if n > most {
				t.Errorf("%s: was given %d bytes, and is still behind", name, n)
				break
			}
		}
		t.Logf("%s: %d bytes, %d snapshots", name, n, snapshots)
		if snapshots < 2 {
			t.Errorf("%s: no snapshot beside the first", name)
		}
		_ = s.Close()
	}
}
