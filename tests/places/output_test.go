//go:build linux

package places

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// numbers is a command that prints the numbers from 1, one a line, and the hash of what it prints.
func numbers(last int) (command string, sum string, size int64) {
	h := sha256.New()
	line := make([]byte, 0, 64<<10)
	for i := range last {
		line = append(strconv.AppendInt(line, int64(i+1), 10), '\n')
		if len(line) > cap(line)-32 || i == last-1 {
			size += int64(len(line))
			h.Write(line)
			line = line[:0]
		}
	}
	return fmt.Sprintf("seq 1 %d; exit 7", last), fmt.Sprintf("%x", h.Sum(nil)), size
}

// receive reads a stream to its end and hashes stdout.
func receive(t *testing.T, s api.Stream, h hash.Hash) (size int64, exit *api.ExecOutcome) {
	t.Helper()
	for {
		e, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return size, exit
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e.Type {
		case api.EventStdout:
			n, _ := h.Write(api.Data(e.Data, e.DataBase64))
			size += int64(n)
		case api.EventExit:
			exit = e.ExecOutcome
		case api.EventGap:
			t.Errorf("output was lost: %+v", e)
		}
	}
}

// output streams much output and compares its hash: 1 GB with -all, a part of that in CI.
func (p *place) output(t *testing.T, session string) {
	last := 4_000_000
	if *all {
		last = 112_000_000
	}
	command, want, size := numbers(last)
	s := testkit.Must(p.ExecStream(p.ctx, api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: session, Command: command, Backpressure: new(true)}}))(t)
	defer s.Close()
	h := sha256.New()
	n, exit := receive(t, s, h)
	if got := fmt.Sprintf("%x", h.Sum(nil)); n != size || got != want || exit == nil || exit.ExitCode != 7 {
		t.Errorf("%d bytes with hash %s and %+v, want %d with %s", n, got, exit, size, want)
	}
}

// killed kills the daemon in the middle of a command. The next daemon has the session, the whole output
// and the status.
func (p *place) killed(t *testing.T, session string) {
	_, want, size := numbers(3000)
	x := testkit.Must(p.ExecStart(p.ctx, api.ExecParams{SessionID: session, Command: "v=kept; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo $i; [ $((i % 100)) != 0 ] || sleep 0.02; done; exit 7"}))(t)
	testkit.Eventually(t, "the command prints", func() bool {
		return testkit.Must(p.ExecInfo(p.ctx, api.ExecInfoParams{ExecID: x.ExecID}))(t).StdoutBytes > 0
	})
	p.Client = p.daemon.Crash(p.T, nil)
	s := testkit.Must(p.ExecStream(p.ctx, api.ExecStreamParams{ExecID: x.ExecID}))(t)
	defer s.Close()
	h := sha256.New()
	n, exit := receive(t, s, h)
	if got := fmt.Sprintf("%x", h.Sum(nil)); n != size || got != want || exit == nil || exit.ExitCode != 7 {
		t.Errorf("%d bytes with hash %s and %+v, want %d with %s", n, got, exit, size, want)
	}
	if r := testkit.Must(p.ExecRun(p.ctx, api.ExecParams{SessionID: session, Command: "echo $v"}))(t); r.Stdout != "kept\n" {
		t.Errorf("the shell has lost its state: %+v", r)
	}
}

// cycles creates and destroys sessions, each in a place of its own; trltest looks for what they left.
func (p *place) cycles(t *testing.T) {
	n := 1
	if *all {
		n = 100
	}
	for range n {
		p.destroy(p.create(api.SessionCreateParams{}).SessionID)
	}
	if r := testkit.Must(p.RuntimePrune(p.ctx, api.RuntimePruneParams{}))(t); len(r.Removed)+len(r.Pending) > 0 {
		t.Errorf("the sessions left %+v", r)
	}
}
