package chat

import (
	"bufio"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
)

var updateArchives = flag.Bool("update", false, "write what is printed into the archives")

// shown returns the output of print.
func shown(t *testing.T, tty, colour bool, print func(*ui.Printer)) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := &ui.Printer{File: f, TTY: tty, Colour: colour}
	print(p)
	b, err := os.ReadFile(f.Name())
	if err != nil || p.Err != nil {
		t.Fatal(err, p.Err)
	}
	return string(b)
}

// TestView shows events with several settings of the view. The archives in testdata/dialogue have
// the events, a line of JSON each, and the wanted output of each mood; lines that begin with #
// are comments.
func TestView(t *testing.T) {
	files, _ := filepath.Glob("testdata/dialogue/*.txtar")
	if len(files) == 0 {
		t.Fatal("no archives")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var events []api.DialogueEvent
			for i, f := range archive.Files {
				if f.Name == "events" {
					events = parseEvents(t, string(f.Data))
					continue
				}
				mood, ok := moods[f.Name]
				if !ok {
					t.Fatalf("%s: no such mood", f.Name)
				}
				got := shown(t, mood.tty, mood.colour, func(p *ui.Printer) {
					v := newView(p)
					mood.set(v)
					for _, ev := range events {
						v.event(ev)
					}
					v.endLine()
				})
				got = strings.ReplaceAll(got, "\x1b", "␛")
				if got != string(f.Data) && !*updateArchives {
					t.Errorf("%s: prints\n%s\nwant\n%s", f.Name, got, f.Data)
				}
				archive.Files[i].Data = []byte(got)
			}
			if *updateArchives {
				if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// moods are the settings of the view by name.
var moods = map[string]struct {
	tty, colour bool
	set         func(*view)
}{
	"terminal": {true, false, func(*view) {}},
	"colours":  {true, true, func(*view) {}},
	"full":     {true, false, func(v *view) { v.full = true }},
	"answer":   {false, false, func(v *view) { v.work, v.notes = false, false }},
	"problems": {false, false, func(v *view) { v.answers, v.work = false, false }},
}

func parseEvents(t *testing.T, text string) []api.DialogueEvent {
	t.Helper()
	var events []api.DialogueEvent
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		var ev api.DialogueEvent
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&ev); err != nil {
			t.Fatalf("%s: %s", line, err)
		}
		events = append(events, ev)
	}
	return events
}

// TestTranscriptLooksLikeEvents: a transcript looks like the events when they came.
func TestTranscriptLooksLikeEvents(t *testing.T) {
	exit := 1
	call := api.DialogueItem{ItemID: "a", Kind: "tool_call", TurnID: "t", Status: "final", Tool: &api.DialogueToolCall{
		Name: "Agent", Kind: "agent", Subject: "look", Status: "completed", Output: []api.DialoguePart{{Type: "text", Text: "report"}},
		Items: []api.DialogueItem{
			{ItemID: "b", Kind: "agent", Status: "final", Parts: []api.DialoguePart{{Type: "text", Text: "I look\nand look"}}},
			{ItemID: "c", Kind: "tool_call", Status: "final", Tool: &api.DialogueToolCall{
				Name: "Bash", Subject: "make test", Status: "failed", ExitCode: &exit, Output: []api.DialoguePart{{Type: "text", Text: "a\nb\n"}},
			}},
		},
	}}
	tr := api.DialogueTranscriptResult{
		Turns: []api.DialogueTurn{{TurnID: "t", Outcome: "interrupted"}},
		Items: []api.DialogueItem{
			{ItemID: "u", Kind: "user", TurnID: "t", Status: "final", Parts: []api.DialoguePart{{Type: "text", Text: "go\non"}}},
			{ItemID: "r", Kind: "reasoning", TurnID: "t", Status: "final", Parts: []api.DialoguePart{{Type: "text", Text: "hm"}}},
			call,
			{ItemID: "z", Kind: "agent", TurnID: "t", Status: "final", Parts: []api.DialoguePart{{Type: "text", Text: "done\x1b[2J"}}},
		},
		Tasks:    []api.DialogueTask{{TaskID: "k", Name: "watching", Status: "running"}},
		Requests: []api.DialogueRequest{{RequestID: "r1", Tool: "Bash", Subject: "rm x"}, {RequestID: "r0", How: "answered"}},
	}
	got := shown(t, true, false, func(p *ui.Printer) { PrintTranscript(p, tr, false) })
	want := `> go
> on

● Agent  look
    I look
    ● Bash  make test
      ⎿ exit 1 · 2 lines
  ⎿ Agent look: report

done\x1b[2J
! interrupted
! runs in the background: watching
? r1  Bash rm x
`
	if got != want {
		t.Errorf("prints\n%s\nwant\n%s", got, want)
	}
}
