package soak_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/tests/trltest"
)

var (
	streamBytes = flag.Int64("stream-bytes", 1_000_000_000, "size of the stream of TestReconnectingReader")
	reconnects  = flag.Int("reconnects", 500, "connections that its reader gives up")
)

// text is a command that writes n bytes which are nowhere the same twice in a row.
func text(n int64) string {
	return fmt.Sprintf("seq 1 1000000000 2>/dev/null | head -c %d", n)
}

// digest is what a bare shell makes of a command.
func digest(t *testing.T, command string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", command+" | sha256sum").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))[0]
}

// reader reads one stream of stdout over as many connections as it takes.
type reader struct {
	id   string
	seq  int64
	sum  interface{ io.Writer }
	size int64
	done bool
}

// read takes at most that many pushes, all for a negative number.
func (r *reader) read(s api.Stream, pushes int) error {
	for ; pushes != 0; pushes-- {
		ev, err := s.Recv()
		if err != nil {
			return err
		}
		if ev.Seq <= r.seq {
			return fmt.Errorf("push %d after %d", ev.Seq, r.seq)
		}
		r.seq = ev.Seq
		switch ev.Type {
		case api.EventStdout:
			if *ev.Offset != r.size {
				return fmt.Errorf("push %d is at byte %d, must be at %d", ev.Seq, *ev.Offset, r.size)
			}
			data := api.Data(ev.Data, ev.DataBase64)
			_, _ = r.sum.Write(data)
			r.size += int64(len(data))
		case api.EventExit:
			r.done = true
			return nil
		default:
			return fmt.Errorf("push of type %s", ev.Type)
		}
	}
	return nil
}

// TestReconnectingReader: a reader that gives its connection up 500 times in the middle
// of 1 GB has the same bytes in the end as one that never did, while one beside it
// reads nothing at all and another one slowly.
func TestReconnectingReader(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--output-bytes", "2GiB", "--session-output-bytes", "4GiB", "--total-output-bytes", "8GiB"))
	service := daemon.Client(t)
	s := create(t, service, api.SessionCreateParams{})
	command := text(*streamBytes)
	x, err := service.ExecStart(context.Background(), api.ExecParams{SessionID: s.SessionID, Command: command})
	if err != nil {
		t.Fatal(err)
	}
	// It asks for everything and takes nothing, until the end.
	dead, err := net.Dial("unix", daemon.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	if _, err := fmt.Fprintf(dead, `{"id":1,"method":"exec.stream","params":{"exec_id":%q}}`+"\n", x.ExecID); err != nil {
		t.Fatal(err)
	}
	slow, err := daemon.Client(t).ExecStream(context.Background(), api.ExecStreamParams{ExecID: x.ExecID})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()

	sum := sha256.New()
	r := &reader{id: x.ExecID, sum: sum}
	random := rand.New(rand.NewPCG(1, 2))
	given := 0
	for !r.done {
		c, err := client.Dial(context.Background(), daemon.Socket)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := c.ExecStream(context.Background(), api.ExecStreamParams{ExecID: x.ExecID, AfterSeq: r.seq})
		if err != nil {
			t.Fatal(err)
		}
		pushes := -1
		if given < *reconnects {
			pushes = random.IntN(12)
			given++
		}
		err = r.read(stream, pushes)
		c.Close()
		if err != nil {
			t.Fatal(err)
		}
		if given%100 == 0 { // the slow one takes a look now and then
			if _, err := slow.Recv(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, want := hex.EncodeToString(sum.Sum(nil)), digest(t, command); r.size != *streamBytes || got != want {
		t.Errorf("read %d of %d bytes, with the digest %s, not %s", r.size, *streamBytes, got, want)
	}
	if given < *reconnects {
		t.Errorf("only %d connections were given up", given)
	}
	destroy(t, service, s.SessionID)
}

// TestThousandReaders: a thousand readers of one flooding command all get all of it, and
// the command is done long before the last of them.
func TestThousandReaders(t *testing.T) {
	const readers, size = 1000, 100_000
	daemon := trltest.Start(t)
	service := daemon.Client(t)
	s := create(t, service, api.SessionCreateParams{})
	command := "read go; " + text(size)
	x, err := service.ExecStart(context.Background(), api.ExecParams{SessionID: s.SessionID, Command: command, StdinOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	const connections = 20
	streams := make([]api.Stream, readers)
	for i := range connections {
		c := daemon.Client(t)
		for j := i; j < readers; j += connections {
			if streams[j], err = c.ExecStream(context.Background(), api.ExecStreamParams{ExecID: x.ExecID}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := service.ExecInput(context.Background(), api.ExecInputParams{ExecID: x.ExecID, Data: "\n"}); err != nil {
		t.Fatal(err)
	}
	// No reader has read anything yet, and the command still ends.
	if w, err := service.ExecWait(context.Background(), api.ExecWaitParams{ExecIDs: []string{x.ExecID}}); err != nil || len(w.Happened) != 1 {
		t.Fatalf("%+v, %v", w, err)
	}
	want := digest(t, text(size))
	var all sync.WaitGroup
	for _, stream := range streams {
		all.Go(func() {
			defer stream.Close()
			sum := sha256.New()
			r := &reader{id: x.ExecID, sum: sum}
			if err := r.read(stream, -1); err != nil && !errors.Is(err, io.EOF) {
				t.Error(err)
			} else if got := hex.EncodeToString(sum.Sum(nil)); got != want {
				t.Errorf("read %d of %d bytes, with the digest %s, not %s", r.size, size, got, want)
			}
		})
	}
	all.Wait()
	destroy(t, service, s.SessionID)
}
