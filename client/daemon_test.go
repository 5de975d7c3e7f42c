package client_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// long bounds what a daemon with the race detector on a busy machine needs for much output.
func long(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// ways are the clients of one daemon, by the way they go. The daemon can be restarted
// under them.
func ways(t *testing.T, args ...string) (*trltest.Daemon, map[string]*client.Client) {
	t.Helper()
	free := freeAddresses(t, 2)
	address, grpcAddress := free[0], free[1]
	d := trltest.Start(t, trltest.Args(append(args, "--http", address, "--grpc", grpcAddress, "--log-level", "warn")...))
	token, err := client.Token("http://"+address, filepath.Join(d.StateDir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	web, err := client.DialHTTP("http://"+address, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { web.Close() })
	rpc, err := client.DialGRPC(long(t), "grpc://"+grpcAddress, client.GRPCOptions{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rpc.Close() })
	return d, map[string]*client.Client{"socket": d.Client(t), "http": web, "grpc": rpc}
}

// freeAddresses are such that a daemon finds them again after each restart.
func freeAddresses(t *testing.T, n int) (list []string) {
	t.Helper()
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		list = append(list, ln.Addr().String())
	}
	return list
}

func session(t *testing.T, c *client.Client) string {
	t.Helper()
	s, err := c.SessionCreate(long(t), api.SessionCreateParams{})
	if err != nil {
		t.Fatal(err)
	}
	return s.SessionID
}

// TestKilledDaemonLosesNothing kills the daemon again and again while a client reads.
func TestKilledDaemonLosesNothing(t *testing.T) {
	testkit.Long(t)
	d, clients := ways(t, "--output-bytes", "64MiB", "--session-output-bytes", "256MiB")
	for name, c := range clients {
		t.Run(name, func(t *testing.T) {
			size, kills := 50<<20, 20
			if name != "socket" { // what is behind it is the same
				size, kills = size/5, kills/2
			}
			command := fmt.Sprintf("seq 1 100000000 | head -c %d; echo done >&2; exit 7", size)
			s, err := c.ExecStream(long(t), api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: session(t, c), Command: command}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var come atomic.Int64
			progress, ended := make(chan struct{}, 1), make(chan struct{})
			sum, stderr := sha256.New(), ""
			go func() {
				defer close(ended)
				for {
					ev, err := s.Recv()
					switch {
					case err == io.EOF:
						return
					case err != nil:
						t.Error(err)
						return
					case ev.Type == api.EventStdout:
						if *ev.Offset != come.Load() {
							t.Errorf("bytes at %d after %d", *ev.Offset, come.Load())
						}
						data := api.Data(ev.Data, ev.DataBase64)
						sum.Write(data)
						come.Add(int64(len(data)))
					case ev.Type == api.EventStderr:
						stderr += ev.Data
					case ev.Type == api.EventExit && ev.ExitCode != 7, ev.Type == api.EventGap:
						t.Errorf("%+v", ev)
					}
					select {
					case progress <- struct{}{}:
					default:
					}
				}
			}()
			for k := range kills {
				for come.Load() < int64(k*size/kills) {
					select {
					case <-progress:
					case <-ended:
						t.Fatalf("ended after %d bytes", come.Load())
					}
				}
				d.Kill9()
				d.Restart(t)
			}
			<-ended
			if come.Load() != int64(size) || stderr != "done\n" {
				t.Errorf("%d bytes of stdout, stderr %q", come.Load(), stderr)
			}
			if got, want := fmt.Sprintf("%x", sum.Sum(nil)), numbers(size); got != want {
				t.Errorf("sha256 %s, want %s", got, want)
			}
		})
	}
}

// numbers is the hash of what `seq 1 … | head -c n` prints.
func numbers(n int) string {
	sum, left := sha256.New(), n
	for i := 1; left > 0; i++ {
		line := fmt.Appendln(nil, i)
		line = line[:min(left, len(line))]
		sum.Write(line)
		left -= len(line)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// TestCallsOverAKilledDaemon: a wait continues, input is written once, and the next call finds the
// new daemon.
func TestCallsOverAKilledDaemon(t *testing.T) {
	testkit.Long(t)
	d, clients := ways(t)
	for name, c := range clients {
		t.Run(name, func(t *testing.T) {
			ctx := long(t)
			out := filepath.Join(t.TempDir(), "out")
			x, err := c.ExecStart(ctx, api.ExecParams{SessionID: session(t, c), Command: "cat > " + out + "; exit 9", StdinOpen: true})
			if err != nil {
				t.Fatal(err)
			}
			waited := make(chan error, 1)
			go func() {
				r, err := c.ExecWait(ctx, api.ExecWaitParams{ExecIDs: []string{x.ExecID}})
				if err == nil && (len(r.Happened) != 1 || r.Happened[0].Outcome == nil || r.Happened[0].Outcome.ExitCode != 9) {
					err = fmt.Errorf("%+v", r)
				}
				waited <- err
			}()
			events, err := c.EventSubscribe(ctx, api.EventSubscribeParams{SessionID: x.SessionID, Types: []string{"exec.exited"}})
			if err != nil {
				t.Fatal(err)
			}
			defer events.Close()
			const pieces = 60
			killed := make(chan struct{})
			step := make(chan struct{}, pieces)
			var want strings.Builder
			go func() {
				defer close(killed)
				for range 3 {
					for range pieces / 4 {
						<-step
					}
					d.Kill9()
					d.Restart(t)
				}
			}()
			for i := range pieces {
				piece := fmt.Sprintf("%d \xff %s\n", i, strings.Repeat("x", i*10))
				want.WriteString(piece)
				p := api.ExecInputParams{ExecID: x.ExecID, WriteID: fmt.Sprint(i), Close: i == pieces-1}
				if i%3 == 0 {
					p.DataBase64 = base64.StdEncoding.EncodeToString([]byte(piece))
				} else {
					p.Bytes = []byte(piece)
				}
				if r, err := c.ExecInput(ctx, p); err != nil || r.StdinBytes != int64(want.Len()) {
					t.Fatalf("piece %d: %+v, %v", i, r, err)
				}
				step <- struct{}{}
			}
			<-killed
			if err := <-waited; err != nil {
				t.Error(err)
			}
			if got, err := os.ReadFile(out); err != nil || string(got) != want.String() {
				t.Errorf("the command read %d bytes, want %d (%v)", len(got), want.Len(), err)
			}
			if ev, err := events.Recv(); err != nil || ev.ExecID != x.ExecID || ev.ExecOutcome == nil || ev.ExitCode != 9 {
				t.Errorf("%+v, %v", ev, err)
			}
			r, err := c.ExecRun(ctx, api.ExecParams{SessionID: x.SessionID, Command: "echo still here"})
			if err != nil || r.Stdout != "still here\n" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestReadOutput reads output as bytes, each way: in pieces, behind a gap, and as it comes.
func TestReadOutput(t *testing.T) {
	_, clients := ways(t, "--output-bytes", "64KiB")
	for name, c := range clients {
		t.Run(name, func(t *testing.T) {
			ctx := long(t)
			x, err := c.ExecStart(ctx, api.ExecParams{SessionID: session(t, c), Command: `printf 'a\377\000b'; cat`, StdinOpen: true})
			if err != nil {
				t.Fatal(err)
			}
			read := func(offset, limit int64, wait bool) api.OutputBytes {
				t.Helper()
				out, err := c.ReadOutput(ctx, api.ExecOutputParams{ExecID: x.ExecID, Offset: offset, Limit: &limit}, wait)
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			if out := read(0, 100, true); string(out.Bytes) != "a\xff\x00b" || out.NextOffset != 4 || out.Complete || out.Stream != "stdout" || out.ExecID != x.ExecID {
				t.Errorf("%+v", out)
			}
			if out := read(1, 2, false); string(out.Bytes) != "\xff\x00" || out.Offset != 1 || out.NextOffset != 3 || out.TotalBytes != 4 {
				t.Errorf("%+v", out)
			}
			for _, limit := range []int64{0, 10} {
				if out := read(4, limit, false); len(out.Bytes) != 0 || out.NextOffset != 4 || out.State != api.ExecRunning {
					t.Errorf("%+v", out)
				}
			}
			come := make(chan api.OutputBytes)
			go func() { come <- read(4, 100, true) }()
			if _, err := c.ExecInput(ctx, api.ExecInputParams{ExecID: x.ExecID, Data: "more"}); err != nil {
				t.Fatal(err)
			}
			if out := <-come; string(out.Bytes) != "more" || out.Offset != 4 {
				t.Errorf("%+v", out)
			}
			go func() { come <- read(8, 100, true) }()
			if _, err := c.ExecInput(ctx, api.ExecInputParams{ExecID: x.ExecID, Close: true}); err != nil {
				t.Fatal(err)
			}
			if out := <-come; len(out.Bytes) != 0 || !out.Complete {
				t.Errorf("%+v", out)
			}
			if _, err := c.ReadOutput(ctx, api.ExecOutputParams{ExecID: "x-0123456789-1"}, true); !errors.Is(err, api.ErrExecNotFound) {
				t.Error(err)
			}

			// The log has dropped the middle of this.
			if x, err = c.ExecStart(ctx, api.ExecParams{SessionID: x.SessionID, Command: "seq 1 100000 | head -c 500000", Wait: true}); err != nil {
				t.Fatal(err)
			}
			if _, err := c.ExecWait(ctx, api.ExecWaitParams{ExecIDs: []string{x.ExecID}}); err != nil {
				t.Fatal(err)
			}
			var offset, gone int64
			for {
				out := read(offset, 10_000, true)
				if out.Gap != nil {
					gone += out.Gap.To - out.Gap.From
					offset = out.Gap.To
				}
				if out.Offset != offset {
					t.Fatalf("at %d: %+v", offset, out.ExecOutputResult)
				}
				if offset = out.NextOffset; out.Complete {
					break
				}
			}
			if offset != 500_000 || gone == 0 {
				t.Errorf("%d bytes, %d gone", offset, gone)
			}
		})
	}
}
