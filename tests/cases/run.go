package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
)

// Runner runs cases against a service, one at a time: they share names in /tmp.
type Runner struct {
	Service api.Service
	// Beside is a session in whose place the cases run; empty for the host.
	Beside string
	// Scale stretches every max_ms, for a machine that is slow or busy.
	Scale float64
}

// Run plays one case in one shell and returns what was not as it must be.
func (r Runner) Run(ctx context.Context, c Case, shell Shell) []string {
	var bad complaints
	params := c.Session
	params.Shell, params.Beside = shell.Path, r.Beside
	info, err := r.Service.SessionCreate(ctx, params)
	if err != nil {
		bad.addf("session.create: %s", err)
		return bad
	}
	p := play{Runner: r, session: info.SessionID}
	for i, step := range c.Steps {
		var wrong complaints
		p.step(ctx, step, &wrong)
		for _, w := range wrong {
			bad.addf("step %d (%s): %s", i+1, title(step), w)
		}
	}
	if c.Differential {
		p.differ(ctx, c, shell, &bad)
	}
	p.end(ctx, c, &bad)
	return bad
}

// play is a case that runs.
type play struct {
	Runner
	session string
	exec    string // the last command's id
	answers []answer
}

// answer is what is compared with the real shell.
type answer struct {
	stdout []byte
	exit   int
}

func (p *play) step(ctx context.Context, s Step, bad *complaints) {
	idle(ctx, s.IdleS)
	if s.API != "" {
		p.call(ctx, s, bad)
	} else {
		p.command(ctx, s, bad)
	}
	if s.Expect.SessionAlive != nil {
		info, err := p.Service.SessionInfo(ctx, api.SessionInfoParams{SessionID: p.session})
		if alive := err == nil && info.State == api.SessionIdle; alive != *s.Expect.SessionAlive {
			bad.addf("the session is %q (%v)", info.State, err)
		}
	}
	if s.Expect.Gone != "" {
		if left := commandLines(s.Expect.Gone); len(left) > 0 {
			bad.addf("still there: %q", left)
		}
	}
	if s.Expect.Running != "" && !comesTrue(ctx, func() bool { return len(commandLines(s.Expect.Running)) > 0 }) {
		bad.addf("no process matches %q", s.Expect.Running)
	}
}

// comesTrue waits for what the kernel is about to do: a process that was forked is
// not yet the program it will be.
func comesTrue(ctx context.Context, cond func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for !cond() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return true
}

func idle(ctx context.Context, seconds float64) {
	if seconds == 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(seconds * float64(time.Second))):
	}
}

func (p *play) command(ctx context.Context, s Step, bad *complaints) {
	start := time.Now()
	var result api.ExecResult
	var err error
	if s.CancelOn != "" {
		result, err = p.runAndCancel(ctx, s)
	} else {
		result, err = p.Service.ExecRun(ctx, s.execParams(p.session))
	}
	took := time.Since(start)
	if result.ExecID != "" {
		p.exec = result.ExecID
	}
	p.answers = append(p.answers, answer{result.StdoutData(), result.ExitCode})
	if s.Expect.checkError(err, bad) {
		return
	}
	s.Expect.checkResult(result, took, p.Scale, bad)
}

// runAndCancel streams a command and cancels it when its stdout matches.
func (p *play) runAndCancel(ctx context.Context, s Step) (api.ExecResult, error) {
	stream, err := p.Service.ExecStream(ctx, api.ExecStreamParams{ExecParams: s.execParams(p.session)})
	if err != nil {
		return api.ExecResult{}, err
	}
	defer stream.Close()
	result := api.ExecResult{ExecID: stream.Start().ExecID, SessionID: p.session}
	when := regexp.MustCompile(s.CancelOn)
	var stdout, stderr []byte
	cancelled := false
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return result, err
		}
		switch event.Type {
		case api.EventStdout:
			stdout = append(stdout, api.Data(event.Data, event.DataBase64)...)
		case api.EventStderr:
			stderr = append(stderr, api.Data(event.Data, event.DataBase64)...)
		case api.EventExit:
			result.ExecOutcome = *event.ExecOutcome
		}
		if !cancelled && when.Match(stdout) {
			cancelled = true
			if _, err := p.Service.ExecCancel(ctx, api.ExecCancelParams{ExecID: result.ExecID, Signal: s.CancelSignal}); err != nil {
				return result, fmt.Errorf("exec.cancel: %w", err)
			}
		}
	}
	if !cancelled {
		return result, fmt.Errorf("ended before stdout matched %q: %s", s.CancelOn, quote(stdout))
	}
	result.Stdout, result.StdoutBase64 = api.Text(stdout)
	result.Stderr, result.StderrBase64 = api.Text(stderr)
	return result, nil
}

// call plays a step that is not a command.
func (p *play) call(ctx context.Context, s Step, bad *complaints) {
	method, ok := api.FindMethod(s.API)
	if !ok || method.Streams {
		bad.addf("there is no method %q to call here", s.API)
		return
	}
	params := strings.NewReplacer("$SESSION", p.session, "$EXEC", p.exec).Replace(string(s.Params))
	var text []byte
	ask := func() bool {
		data, err := method.Call(ctx, p.Service, json.RawMessage(params))
		if s.Expect.checkError(err, bad) {
			return true
		}
		if text, err = json.Marshal(data); err != nil {
			bad.addf("answer: %s", err)
			return true
		}
		var differs complaints
		matches(&differs, "the answer", s.Expect.DataRegex, text)
		return len(differs) == 0
	}
	if comesTrue(ctx, ask) {
		return
	}
	matches(bad, "the answer", s.Expect.DataRegex, text)
}

// end destroys the session and looks for what it left behind.
func (p *play) end(ctx context.Context, c Case, bad *complaints) {
	if c.ShellRestarts != nil {
		info, err := p.Service.SessionInfo(ctx, api.SessionInfoParams{SessionID: p.session})
		if err != nil {
			bad.addf("session.info: %s", err)
		} else if info.ShellRestarts != *c.ShellRestarts {
			bad.addf("the shell was replaced %d times, must be %d", info.ShellRestarts, *c.ShellRestarts)
		}
	}
	if _, err := p.Service.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: p.session, Force: true}); err != nil {
		bad.addf("session.destroy: %s", err)
	}
	if left := processesOf(p.session); len(left) > 0 {
		bad.addf("left behind after session.destroy: %q", left)
	}
	if c.GoneAfterDestroy != "" {
		if left := commandLines(c.GoneAfterDestroy); len(left) > 0 {
			bad.addf("still there after session.destroy: %q", left)
		}
	}
}

// title names a step in a message.
func title(s Step) string {
	text := s.API
	if text == "" {
		text = s.CommandText()
	}
	if len(text) > 60 {
		text = text[:60] + "…"
	}
	return fmt.Sprintf("%q", text)
}
