package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// waitFor is session.wait.
func (d *daemon) waitFor(ctx context.Context, p api.SessionWaitParams) (api.SessionWaitResult, error) {
	var res api.SessionWaitResult
	_, err := d.conn.Call(ctx, link.Wait.With(&p, nil, &res))
	return res, err
}

// waits must end for that reason.
func (d *daemon) waits(p api.SessionWaitParams, reason string) api.SessionWaitResult {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	res, err := d.waitFor(ctx, p)
	if err != nil || res.Reason != reason || res.TimedOut != (reason == api.WaitTimeout) || res.SessionID != d.id {
		d.t.Errorf("%s: %s, %v; want %s", text(p), text(res), err, reason)
	}
	return res
}

func TestProgramWaitText(t *testing.T) {
	d := start(t, script(`echo one; echo two >&2; printf 'name? '; read name; printf 'hello %s\r\nthe end, ' "$name"; read x; echo "$x"; exit 4`))
	// A question has no end of line.
	res := d.waits(api.SessionWaitParams{Text: `^(\w+)\? $`}, api.WaitText)
	if res.Match != "name? " || strings.Join(res.Groups, "|") != "name? |name" || res.ExitCode != nil {
		t.Errorf("%s", text(res))
	}
	// Output that is there already counts, on both streams. Stderr may arrive after the
	// question; the version of the last wait covers all three.
	for _, line := range []string{"one", "two"} {
		if res = d.waits(api.SessionWaitParams{Text: "^" + line + "$"}, api.WaitText); res.Match != line {
			t.Errorf("%s", text(res))
		}
	}
	// With since_version only newer output counts.
	d.waits(api.SessionWaitParams{Text: "one|two|name", SinceVersion: &res.Version, TimeoutS: ptr(0.0)}, api.WaitTimeout)
	answer := make(chan api.SessionWaitResult)
	go func() {
		answer <- d.waits(api.SessionWaitParams{Text: "^hello (.*)$", SinceVersion: &res.Version}, api.WaitText)
	}()
	if _, err := d.typed(link.SessionInputParams{}, "you\n"); err != nil {
		t.Fatal(err)
	}
	if res := <-answer; res.Match != "hello you" || res.Groups[1] != "you" {
		t.Errorf("%s", text(res))
	}
	// A line that comes in pieces is one line.
	d.waits(api.SessionWaitParams{Text: "^the end, $"}, api.WaitText)
	if _, err := d.typed(link.SessionInputParams{}, "or not\n"); err != nil {
		t.Fatal(err)
	}
	d.waits(api.SessionWaitParams{Text: "^the end, or not$"}, api.WaitText)
	// A wait for a text that never comes ends with the program.
	res = d.waits(api.SessionWaitParams{Text: "never"}, api.WaitExit)
	if res.ExitCode == nil || *res.ExitCode != 4 {
		t.Errorf("%s", text(res))
	}
	d.terminated()
	d.waits(api.SessionWaitParams{IdleS: ptr(1000.0)}, api.WaitExit)
	if res := d.waits(api.SessionWaitParams{Text: "hello"}, api.WaitText); *res.ExitCode != 4 {
		t.Errorf("%s", text(res))
	}
}

func TestProgramWaitSignal(t *testing.T) {
	d := start(t, script("read x; kill -9 $$"))
	answer := make(chan api.SessionWaitResult)
	go func() { answer <- d.waits(api.SessionWaitParams{Exit: true}, api.WaitExit) }()
	if _, err := d.typed(link.SessionInputParams{}, "\n"); err != nil {
		t.Fatal(err)
	}
	if res := <-answer; res.Signal != "SIGKILL" || *res.ExitCode != 137 {
		t.Errorf("%s", text(res))
	}
}

func TestProgramWaitIdle(t *testing.T) {
	d := start(t, script("read x; sleep 0.1; for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 0.05; done; read x"))
	d.waits(api.SessionWaitParams{IdleS: ptr(0.4)}, api.WaitIdle)
	// The program was idle before the input, and has not been idle since.
	if _, err := d.typed(link.SessionInputParams{}, "\n"); err != nil {
		t.Fatal(err)
	}
	// Much longer than the pauses of the program, which a busy machine stretches.
	d.waits(api.SessionWaitParams{IdleS: ptr(2.0)}, api.WaitIdle)
	if x := d.info(d.one()); x.StdoutBytes != int64(len("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n")) {
		t.Errorf("%d bytes", x.StdoutBytes)
	}
	d.waits(api.SessionWaitParams{IdleS: ptr(1000.0), TimeoutS: ptr(0.02)}, api.WaitTimeout)
}

func TestProgramWaitInput(t *testing.T) {
	seeing(t)
	d := start(t, script("sleep 0.1; head -1; sleep 1000"))
	res := d.waits(api.SessionWaitParams{WaitingForInput: true, Text: "never"}, api.WaitInput)
	if res.Process == nil || res.Process.Command != "head -1" {
		t.Errorf("%s", text(res))
	}
	d.waits(api.SessionWaitParams{WaitingForInput: true, TimeoutS: ptr(0.0)}, api.WaitInput)
	if p, err := d.await(t.Context(), d.one()); err != nil || p == nil || p.Command != "head -1" {
		t.Errorf("exec.await: %+v, %v", p, err)
	}
	if _, err := d.typed(link.SessionInputParams{}, "line\n"); err != nil {
		t.Fatal(err)
	}
	d.waits(api.SessionWaitParams{Text: "line"}, api.WaitText)
	d.waits(api.SessionWaitParams{WaitingForInput: true, TimeoutS: ptr(0.2)}, api.WaitTimeout)
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error)
	go func() {
		_, err := d.waitFor(ctx, api.SessionWaitParams{WaitingForInput: true, Exit: true})
		answer <- err
	}()
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	go func() {
		_, err := d.cancel(api.ExecCancelParams{ExecID: d.one()})
		answer <- err
	}()
	d.waits(api.SessionWaitParams{WaitingForInput: true}, api.WaitExit)
	if err := <-answer; err != nil {
		t.Error(err)
	}
}

// What is long or was dropped does not hinder the waiting.
func TestProgramWaitLong(t *testing.T) {
	d := start(t, script(`head -c 10000000 /dev/zero | tr '\0' x; echo end; printf '\377\376 odd\n'; read x`))
	if res := d.waits(api.SessionWaitParams{Text: "x+end$"}, api.WaitText); len(res.Match) > 64<<10 {
		t.Errorf("%d bytes", len(res.Match))
	}
	if res := d.waits(api.SessionWaitParams{Text: " odd"}, api.WaitText); res.Match != "\uFFFD odd" {
		t.Errorf("%q", res.Match)
	}
	d.waits(api.SessionWaitParams{Text: "^nothing", TimeoutS: ptr(0.001)}, api.WaitTimeout)
}
