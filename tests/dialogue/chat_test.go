package dialogue_test

import (
	"bytes"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestChatPrintsBackground: `trl chat -p` waits for what a real agent does in the background,
// prints the answer that follows from it too, and leaves no process.
func TestChatPrintsBackground(t *testing.T) {
	const began, reported = "It was started in the background.", "The background reported."
	for name, c := range map[string]struct {
		agent  *realAgent
		script string
		want   []string // what is printed, in that order
	}{
		"a subagent":               {claude, "background", []string{began, reported}},
		"a command":                {claude, "bgbash", []string{"It is in the background.", "The command in the background has ended."}},
		"a subagent of an old one": {claudeOld, "background", []string{began, reported}},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.agent.use(t, behaviour{tools: "Bash,Agent"})
			var out, errs bytes.Buffer
			cmd := r.trlChat("-p", "[["+c.script+"]]")
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			over := make(chan error, 1)
			go func() { over <- cmd.Wait() }()
			testkit.Eventually(t, "the agent has answered and works in the background", func() bool {
				for _, d := range testkit.Must(r.DialogueList(r.ctx, api.DialogueListParams{}))(r.world).Dialogues {
					r.id, r.session = d.DialogueID, d.SessionID
				}
				return r.id != "" && r.info(r.id).BackgroundTasks == 1 && count(r.events(r.id), api.DialogueEventTurnEnded) == 1
			})
			select {
			case err := <-over:
				t.Fatalf("it did not wait: %v, printed %s%s", err, &out, &errs)
			default:
			}
			r.touch("go")
			select {
			case err := <-over:
				if err != nil {
					t.Errorf("%v: %s", err, &errs)
				}
			case <-r.ctx.Done():
				_ = cmd.Process.Signal(syscall.SIGKILL)
				t.Fatalf("it waits for ever:\n%s", brief(r.events(r.id)))
			}
			if left := r.processes(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			rest := out.String()
			for _, text := range c.want {
				_, after, printed := strings.Cut(rest, text+"\n")
				if !printed {
					t.Errorf("there is no %q in its place in what was printed:\n%s", text, &out)
				}
				rest = after
			}
			if info := r.info(r.id); info.State != api.DialogueEnded || info.Ended.Cause != "closed" {
				t.Errorf("afterwards: %+v", info)
			}
		})
	}
}

// trlChat is `trl chat` with the agent of r.
func (r *real) trlChat(args ...string) *exec.Cmd {
	r.Helper()
	all := []string{"--socket", r.daemon.Socket, "chat", "--agent", r.params.Agent, "--cwd", r.dir}
	for key, value := range r.params.Env {
		all = append(all, "-e", key+"="+value)
	}
	return exec.Command(trltest.Binary(r.T), append(append(append(all, args...), "--"), r.params.Argv...)...)
}

// TestChatRetries: a person in trl chat whose agent cannot be reached can try again with /retry.
func TestChatRetries(t *testing.T) {
	a := startAway(t, "--dialogue-reconnect-s", "0.5")
	d := a.create(a.fake())
	s := testkit.Must(a.SessionCreate(a.ctx, api.SessionCreateParams{
		Kind: api.KindTerminal, Rows: new(100), Env: map[string]string{"NO_COLOR": "1"},
		Command: []string{trltest.Binary(t), "--socket", a.daemon.Socket, "chat", "--dialogue", d.DialogueID},
	}))(a.world)
	// sees waits until a text is on the screen that many times.
	sees := func(times int, text string) {
		t.Helper()
		screen := ""
		defer func() {
			if t.Failed() {
				t.Log(screen)
			}
		}()
		testkit.Eventually(t, text, func() bool {
			screen = testkit.Must(a.SessionScreen(a.ctx, api.SessionScreenParams{SessionID: s.SessionID}))(a.world).Text
			return strings.Count(screen, text) == times
		})
	}
	types := func(line string) {
		t.Helper()
		testkit.Must(a.SessionInput(a.ctx, api.SessionInputParams{SessionID: s.SessionID, Text: line + "\r"}))(a.world)
	}
	sees(1, "\n>")
	types("/retry")
	sees(1, "there is nothing to retry: no error is known")
	types("say before")
	sees(1, "\nbefore\n")
	a.proxy.Refuse()
	a.proxy.Cut()
	sees(1, "the agent cannot be reached")
	sees(1, "in this chat, /retry does the same")
	types("/retry")
	sees(1, "trying again to reach the agent")
	sees(2, "the agent cannot be reached")
	a.proxy.Listen()
	types("/retry")
	sees(1, "the dialogue continues")
	types("say after")
	sees(1, "\nafter\n")
	types("\x04")
	testkit.Must(a.SessionWait(a.ctx, api.SessionWaitParams{SessionID: s.SessionID, Exit: true}))(a.world)
	if info := a.info(d.DialogueID); info.State != api.DialogueIdle || info.Error != nil {
		t.Errorf("afterwards: %+v", info)
	}
}
