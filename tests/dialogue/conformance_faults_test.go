package dialogue_test

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// reportsFaults: the faults of the model are reported, and the retries too.
func (r *real) reportsFaults() {
	r.params.Env["CLAUDE_CODE_MAX_RETRIES"] = "2"
	r.open()
	for _, c := range []struct {
		script, outcome, text string
		retries               map[*realAgent]int // where the program reports them
	}{
		{"busy", "completed", "Answered after two refusals.", map[*realAgent]int{claude: 2}},
		{"cut", "completed", "", map[*realAgent]int{codex: 1}},
		{"err400", "failed", "scripted 400", map[*realAgent]int{codex: 0}},
		{"err401", "failed", "scripted 401", map[*realAgent]int{codex: 3}},
		{"turn1", "completed", "Answer to turn one.", nil},
	} {
		f := r.ask(c.script)
		if turn := f.rest(); turn.Outcome != c.outcome || !strings.Contains(turn.Text, c.text) {
			r.Errorf("%s: %+v", c.script, turn)
		}
		var retries []api.DialogueRetry
		for _, ev := range f.events {
			if ev.Type == api.DialogueEventRetry {
				retries = append(retries, *ev.Retry)
			}
		}
		if want, told := c.retries[r.agent]; told && len(retries) != want {
			r.Errorf("%s: %d retries, want %d:\n%s", c.script, len(retries), want, brief(f.events))
		}
		if r.agent == claude && c.script == "busy" && (retries[0].Attempt != 1 || retries[1].Attempt != 2 || retries[0].Most != 2 || !strings.Contains(retries[0].Cause, "529")) {
			r.Errorf("retries: %+v", retries)
		}
		f.close()
	}
	r.looks(`
		user: [[busy]]
		agent: Answered after two refusals.
		user: [[cut]]
		agent: The connection is cut in the middle of this sentence.
		user: [[err400]]
		claude| program: API Error: 400 scripted 400
		user: [[err401]]
		claude| program: Failed to authenticate. API Error: 401 scripted 401
		user: [[turn1]]
		agent: Answer to turn one.
		turn by user: completed
		turn by user: completed
		turn by user: failed
		turn by user: failed
		turn by user: completed
	`)
	r.same()
}

// saysMuch: a very long answer arrives whole, in one line of the program. The daemon is built
// without the race detector, which would take too long.
func (r *real) saysMuch() {
	r.world = start(r.T, trltest.Use(plain()))
	r.open()
	for script, size := range r.agent.huge {
		r.hugeAnswer(script, size)
	}
}

// hugeAnswer asks for an answer of that size.
func (r *real) hugeAnswer(script string, size int) {
	r.Helper()
	f := r.ask(script)
	defer f.close()
	if turn := f.rest(); turn.Outcome != "completed" {
		r.Errorf("%s: %s", script, turn.Outcome)
	}
	want := strings.Repeat("0123456789abcdef", size/16)
	for _, ev := range f.events {
		if ev.Type == api.DialogueEventItem && ev.Item.Kind == "agent" && ev.Item.Status == "final" {
			if len(ev.Item.Parts) == 1 && ev.Item.Parts[0].Text == want {
				return
			}
			r.Errorf("%s: the answer is not what the model said", script)
		}
	}
	r.Errorf("%s: there is no answer of %d bytes", script, size)
}

// doesNotStart: the error of dialogue.create has the reason why the program did not start, and
// nothing is left of it.
func (r *real) doesNotStart() {
	type start struct {
		name, text string
		change     func(p *api.DialogueCreateParams)
	}
	flags := func(flags ...string) func(p *api.DialogueCreateParams) {
		return func(p *api.DialogueCreateParams) { p.Argv = append(p.Argv[:1:1], flags...) }
	}
	const unknown, used = "00000000-0000-4000-8000-000000000000", "11111111-2222-4333-8444-555555555555"
	resume := func(p *api.DialogueCreateParams) { p.Resume = unknown }
	starts := []start{
		{"flag", "--no-such-flag", flags("--no-such-flag")},
		{"missing", "no-such-program", func(p *api.DialogueCreateParams) { p.Argv = []string{filepath.Join(r.dir, "no-such-program")} }},
	}
	dialogues := 0
	if r.agent == codex {
		starts = append(starts, start{"resume", unknown, resume})
	} else {
		p := r.params
		flags("--session-id", used)(&p)
		info := r.create(p)
		r.id, r.session = info.DialogueID, info.SessionID
		r.talk("turn1")
		r.terminate(r.id)
		dialogues = 1
		starts = append(starts, start{"resume", "No conversation found", resume}, start{"used", "already in use", flags("--session-id", used)})
		if os.Geteuid() == 0 {
			starts = append(starts, start{"root", "root", flags("--dangerously-skip-permissions")})
		}
	}
	for _, c := range starts {
		p := r.params
		p.Name = c.name
		c.change(&p)
		_, err := r.DialogueCreate(r.ctx, p)
		testkit.WantError(r.T, err, api.CodeAgentFailed, c.text)
	}
	for _, s := range testkit.Must(r.SessionList(r.ctx, api.SessionListParams{}))(r.world).Sessions {
		if s.State != api.SessionTerminated {
			r.Errorf("session left: %+v", s)
		}
	}
	if list := testkit.Must(r.DialogueList(r.ctx, api.DialogueListParams{}))(r.world).Dialogues; len(list) != dialogues {
		r.Errorf("dialogues: %+v", list)
	}
	testkit.Eventually(r.T, "no process of the agent is left", func() bool { return len(carriers("HOME="+r.params.Env["HOME"])) == 0 })
}
