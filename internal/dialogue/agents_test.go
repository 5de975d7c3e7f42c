package dialogue

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
	"github.com/trl-dev/trl/internal/dialogue/agent/agenttest"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/session/sessiontest"
)

// parrot is a complete agent, to begin another one with. Its program prints "ready", and then
// answers each line of its stdin, which is a JSON string, with "said" and the same line.
type parrot struct{}

func (parrot) Command(o agent.Options) (argv []string, env map[string]string, err error) {
	return []string{"parrot"}, nil, nil
}

func (parrot) Needs(agent.Options, func(string) string) api.Isolation { return api.Isolation{} }

func (parrot) Describe(*api.DialogueOpened) {}

func (parrot) New(o agent.Options) agent.Protocol { return &parrotTalk{ids: agent.NewIDs(o.Epoch)} }

// parrotTalk is the conversation with one process.
type parrotTalk struct {
	ids      agent.IDs
	messages []string // ids; the first is being answered
}

func (p *parrotTalk) Start() agent.Step { return agent.Step{} }

func (p *parrotTalk) Line(line []byte) (s agent.Step) {
	var text string
	answer, isAnswer := bytes.CutPrefix(line, []byte("said "))
	switch {
	case string(line) == "ready":
		s.Ready = true
		s.Events = []api.DialogueEvent{{Type: api.DialogueEventState, State: api.DialogueIdle}}
	case isAnswer && len(p.messages) > 0 && json.Unmarshal(answer, &text) == nil:
		turn := api.DialogueTurn{TurnID: p.ids.Turn(), Trigger: "user", Messages: p.messages[:1], Outcome: "completed", Text: text}
		said := api.DialogueItem{ItemID: p.ids.Item(), TurnID: turn.TurnID, Kind: "agent", Status: "final", Parts: []api.DialoguePart{{Type: "text", Text: text}}}
		s.Events = []api.DialogueEvent{
			{Type: api.DialogueEventTurnStarted, Turn: &api.DialogueTurn{TurnID: turn.TurnID, Trigger: "user", Messages: turn.Messages}},
			{Type: api.DialogueEventItem, Item: &said},
			{Type: api.DialogueEventMessage, Message: &api.DialogueMessage{MessageID: p.messages[0], State: "done"}},
			{Type: api.DialogueEventTurnEnded, Turn: &turn},
		}
		if p.messages = p.messages[1:]; len(p.messages) == 0 {
			s.Events = append(s.Events, api.DialogueEvent{Type: api.DialogueEventState, State: api.DialogueIdle})
		}
	default:
		s.Events = []api.DialogueEvent{{Type: api.DialogueEventUnparsed, Unparsed: &api.DialogueUnparsed{Why: "unknown_type", Text: string(line[:min(len(line), 4096)]), Bytes: int64(len(line))}}}
	}
	return s
}

func (p *parrotTalk) Do(c agent.Call) (s agent.Step) {
	s.Answers = []agent.Answer{{ID: c.ID}}
	switch {
	case c.Send != nil && len(c.Send.Content) == 1 && c.Send.Content[0].Type == "text":
		text := c.Send.Content[0].Text
		line, _ := json.Marshal(text)
		p.messages = append(p.messages, c.Send.ID)
		s.Write = [][]byte{append(line, '\n')}
		s.Events = []api.DialogueEvent{
			{Type: api.DialogueEventItem, Item: &api.DialogueItem{ItemID: c.Send.ID, Kind: "user", Status: "final", Parts: []api.DialoguePart{{Type: "text", Text: text}}}},
			{Type: api.DialogueEventMessage, Message: &api.DialogueMessage{MessageID: c.Send.ID, State: "sent"}},
			{Type: api.DialogueEventState, State: api.DialogueRunning},
		}
	case c.Interrupt != nil: // a parrot cannot be interrupted; it answers in no time
	default:
		s.Answers[0].Err = api.Errorf(api.CodeInvalidParams, "a parrot cannot do that")
	}
	return s
}

// squawk is the program of a parrot.
func squawk(ctx context.Context, x *sessiontest.Exec) int {
	x.Stdout("ready\n")
	for {
		text := x.Input(ctx)
		if text == "" {
			return 0
		}
		for line := range strings.Lines(text) {
			x.Stdout("said " + line)
		}
	}
}

// An agent is a row in the table and nothing else: with the row, dialogue.create starts its
// program in a session, and the dialogue drives it, records it, and replays its record.
func TestAnotherAgent(t *testing.T) {
	place := &sessiontest.Runtime{Command: squawk}
	log := slog.New(slog.DiscardHandler)
	sessions := session.NewRegistry(session.Config{Runtimes: []session.Runtime{place}, Logger: log, MaxSessions: 1, DefaultShell: "/bin/sh"})
	defer sessions.Close(nil)
	config := Config{Sessions: sessions, Logger: log, Dir: t.TempDir(), StartTimeout: time.Minute, Grace: time.Minute, LineBytes: 1 << 20}
	r := New(config)

	create := api.DialogueCreateParams{Agent: "parrot", Name: "polly"}
	if _, err := r.Create(t.Context(), create); err == nil || !strings.Contains(err.Error(), `"parrot" is not one of acp, claude, codex`) {
		t.Fatalf("without its row: %v", err)
	}
	agents["parrot"] = parrot{}
	defer delete(agents, "parrot")
	if _, err := r.Create(t.Context(), create); err != nil {
		t.Fatal(err)
	}
	say := func(r *Registry, text string) {
		t.Helper()
		d, err := r.Get("polly")
		if err != nil {
			t.Fatal(err)
		}
		before := d.Info()
		if _, err := d.Send(t.Context(), api.DialogueSendParams{Text: text}); err != nil {
			t.Fatal(err)
		}
		events, err := d.Events(t.Context(), api.DialogueEventsParams{AfterSeq: before.Seq})
		if err != nil {
			t.Fatal(err)
		}
		defer events.Close()
		for {
			ev, err := events.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if ev.Event != nil && ev.Event.Turn != nil && ev.Event.Turn.Outcome != "" {
				if ev.Event.Turn.Text != text {
					t.Errorf("it answered %q", ev.Event.Turn.Text)
				}
				return
			}
		}
	}
	say(r, "hello")

	r.Leave() // the daemon ends, and the program goes on
	r = New(config)
	if err := r.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	say(r, "again")
	d, _ := r.Get("polly")
	tree, err := d.Transcript(api.DialogueTranscriptParams{DialogueID: d.id})
	if err != nil || len(tree.Items) != 4 || len(tree.Turns) != 2 || tree.Items[3].Parts[0].Text != "again" {
		t.Errorf("the transcript is %+v, %v", tree, err)
	}
	if info, err := d.Terminate(t.Context(), api.DialogueTerminateParams{}); err != nil || info.State != api.DialogueEnded {
		t.Errorf("terminated: %+v, %v", info, err)
	}
	r.Close(nil)
}

// The rules for all agents hold for this one, too.
func TestAnotherAgentConforms(t *testing.T) {
	k := agenttest.NewTalk(t, parrot{}, agent.Options{})
	k.Hears("ready", "nonsense", `said "nothing"`)
	k.Send("m1", "one")
	k.Send("m2", "two")
	k.Hears(`said "one"`, `said "two"`)
	k.End()
	k.Check()
	if !k.Ready || k.Tracker.Busy() || k.Count(api.DialogueEventTurnEnded) != 2 {
		t.Errorf("ready %v, events %s", k.Ready, agenttest.Show(k.Events))
	}
}
