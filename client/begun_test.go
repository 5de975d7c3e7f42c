package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/wire"
)

// TestBegun: a stream whose request was sent before continues with its connection. It returns the
// output that is not printed yet, wherever the bytes are cut.
func TestBegun(t *testing.T) {
	const (
		answer = `{"id":"2","ok":true,"data":{"stream_id":"x-1","exec_id":"x-1"}}` + "\n"
		one    = `{"stream_id":"x-1","seq":1,"type":"stdout","offset":0,"raw":6}` + "\nhello\n"
		two    = `{"stream_id":"x-1","seq":2,"type":"stderr","offset":0,"raw":4}` + "\noops"
		exit   = `{"stream_id":"x-1","seq":3,"type":"exit","exit_code":7}` + "\n"
		whole  = answer + one + two + exit
	)
	for _, tt := range []struct {
		stdout, stderr int64 // bytes that are printed
		want           string
	}{{0, 0, "hello\noops"}, {3, 0, "lo\noops"}, {6, 0, "oops"}, {6, 2, "ps"}, {6, 4, ""}} {
		for cut := 0; cut <= len(whole); cut += 7 {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := unix.Write(fds[1], []byte(whole[cut:])); err != nil {
				t.Fatal(err)
			}
			ours, theirs := net.Pipe() // of the calls, of which there are none
			c := client.New(ours)
			ctx := wire.WithBegun(context.Background(), &wire.Begun{
				FD: fds[0], RunID: "id", Received: []byte(whole[:cut]), Printed: map[string]int64{api.EventStdout: tt.stdout, api.EventStderr: tt.stderr},
			})
			opened, err := c.ExecStream(ctx, api.ExecStreamParams{})
			if err != nil {
				t.Fatal(err)
			}
			var got []byte
			status := 0
			for {
				ev, data, err := opened.(api.ByteStream).RecvBytes()
				if err != nil {
					if !errors.Is(err, io.EOF) {
						t.Error(err)
					}
					break
				}
				got = append(got, data...)
				if ev.Type == api.EventExit {
					status = ev.ExitCode
				}
			}
			if string(got) != tt.want || status != 7 || opened.Start().ExecID != "x-1" {
				t.Errorf("cut at %d, printed %d and %d: %q, status %d", cut, tt.stdout, tt.stderr, got, status)
			}
			if wire.TakeBegun(ctx) != nil {
				t.Error("the request can be continued twice")
			}
			_ = c.Close()
			_ = theirs.Close()
			_ = unix.Close(fds[1])
		}
	}
}
