package dialogue_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/dialogue/model"
)

// real is a dialogue with a real agent, whose model is a scripted one.
type real struct {
	*world
	agent   *realAgent
	model   *model.Server
	program string // the path of the agent
	dir     string // where it works
	params  api.DialogueCreateParams
	id      string // of the dialogue
	session string // that it has now
}

// open makes the dialogue.
func (r *real) open() *real {
	r.Helper()
	info := r.create(r.params)
	r.id, r.session = info.DialogueID, info.SessionID
	return r
}

// resume starts the agent again.
func (r *real) resume() {
	r.Helper()
	info := testkit.Must(r.DialogueResume(r.ctx, api.DialogueResumeParams{DialogueID: r.id, Env: r.params.Env}))(r.world)
	if info.DialogueID != r.id {
		r.Errorf("dialogue %s was resumed as %s", r.id, info.DialogueID)
	}
	r.session = info.SessionID
}

// ask sends a message that picks a script and returns what follows.
func (r *real) ask(script string) *follower {
	r.Helper()
	return r.follow(r.id, r.send(r.id, "[["+script+"]]").Seq)
}

// talk sends a message and waits until the agent rests again. It returns the last turn.
func (r *real) talk(script string) api.DialogueTurn {
	r.Helper()
	f := r.ask(script)
	defer f.close()
	return f.rest()
}

// rest takes events until a turn has ended and the agent is idle. It returns the last turn.
func (f *follower) rest() (turn api.DialogueTurn) {
	f.w.Helper()
	state := api.DialogueRunning
	for turn.Outcome == "" || state != api.DialogueIdle {
		ev := f.next()
		switch {
		case ev == nil:
			f.w.Fatalf("the stream ended before the turn did:\n%s", brief(f.events))
		case ev.Type == api.DialogueEventTurnEnded:
			turn = *ev.Turn
		case ev.Type == api.DialogueEventState:
			state = ev.State
		}
	}
	return turn
}

// held waits until the answer without an end has come as far as it does.
func (f *follower) held() {
	f.w.Helper()
	said := ""
	f.until(api.DialogueEventDelta, func(ev *api.DialogueEvent) bool {
		said += ev.Delta.Text
		return strings.HasSuffix(said, "has no end. ")
	})
}

// running waits for a tool call that runs.
func (f *follower) running() {
	f.w.Helper()
	f.until(api.DialogueEventItem, func(ev *api.DialogueEvent) bool { return ev.Item.Tool != nil && ev.Item.Tool.Status == "running" })
}

// request waits for a request.
func (f *follower) request() api.DialogueRequest {
	f.w.Helper()
	return *f.until(api.DialogueEventRequestOpened).Request
}

// answers responds to a request.
func (r *real) answers(request api.DialogueRequest, p api.DialogueRespondParams) error {
	p.DialogueID, p.RequestID = r.id, request.RequestID
	_, err := r.DialogueRespond(r.ctx, p)
	return err
}

// file waits for a file in the directory of the agent: a command of it has come so far.
func (r *real) file(name string) {
	r.Helper()
	testkit.Eventually(r.T, name+" is there", func() bool {
		_, err := os.Stat(filepath.Join(r.dir, name))
		return err == nil
	})
}

// touch makes a file in the directory of the agent: a command of it goes on.
func (r *real) touch(name string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), nil, 0o600); err != nil {
		r.Fatal(err)
	}
}

// looks compares the transcript with an outline; see realAgent.expand.
func (r *real) looks(want string) {
	r.Helper()
	tr := r.transcript(r.id)
	if r.agent == codex {
		sortCalls(tr.Items)
	}
	wantText(r.T, outline(tr), r.agent.expand(want))
}

// survives checks that another daemon tells the same transcript and the same events.
func (r *real) survives() {
	r.Helper()
	tell := func() string {
		text, err := json.Marshal(map[string]any{"transcript": r.transcript(r.id), "events": r.events(r.id)})
		if err != nil {
			r.Fatal(err)
		}
		return string(text)
	}
	before := tell()
	r.restart(nil)
	testkit.Eventually(r.T, "the agent rests", func() bool { return r.info(r.id).State == api.DialogueIdle })
	if after := tell(); after != before {
		r.Errorf("after a restart the dialogue is told differently:\n%s\nbefore:\n%s", after, before)
	}
}

// sortCalls puts calls of one tool that stand beside each other in the order of what they are
// about: Codex begins those of one answer in any order.
func sortCalls(items []api.DialogueItem) {
	same := func(a, b api.DialogueItem) bool { return a.Tool != nil && b.Tool != nil && a.Tool.Name == b.Tool.Name }
	for i := 0; i < len(items); {
		end := i + 1
		for end < len(items) && same(items[i], items[end]) {
			end++
		}
		slices.SortStableFunc(items[i:end], func(a, b api.DialogueItem) int {
			if !same(a, b) {
				return 0
			}
			return strings.Compare(a.Tool.Subject, b.Tool.Subject)
		})
		i = end
	}
}

// wantText compares texts, without the indentation of the test.
func wantText(t *testing.T, got, want string) {
	t.Helper()
	lines := strings.Split(strings.Trim(want, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimRight(line, " "), "\t\t")
	}
	got = regexp.MustCompile(` +\n`).ReplaceAllString(got, "\n")
	if want = strings.TrimSpace(strings.Join(lines, "\n")); strings.TrimSpace(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// outline tells a transcript in a line for each item, with subagents below their calls, and
// then its turns, tasks and requests. It has no ids, so that two equal runs look the same.
func outline(r api.DialogueTranscriptResult) string {
	var b strings.Builder
	outlineItems(&b, r.Items, "")
	for _, t := range r.Turns {
		fmt.Fprintf(&b, "turn by %s: %s\n", t.Trigger, t.Outcome)
	}
	tasks := map[string]int{} // parallel tasks come in any order
	for _, t := range r.Tasks {
		if t.Kind == "shell" && !t.Background { // a command that takes three seconds becomes one
			continue
		}
		how := ""
		if t.Background {
			how = " in the background"
		}
		tasks[fmt.Sprintf("task %s %q%s: %s\n", t.Kind, t.Name, how, t.Status)]++
	}
	for _, line := range slices.Sorted(maps.Keys(tasks)) {
		b.WriteString(strings.Repeat(line, tasks[line]))
	}
	for _, q := range r.Requests {
		fmt.Fprintf(&b, "request %s %s: %s\n", q.Kind, q.Tool, strings.TrimSpace(q.How+" "+q.Decision))
	}
	if r.Ended != nil {
		fmt.Fprintf(&b, "ended: %s %s\n", r.Ended.Cause, r.Ended.Signal)
	}
	return b.String()
}

func outlineItems(b *strings.Builder, items []api.DialogueItem, indent string) {
	for _, it := range items {
		kind := it.Kind
		if it.Synthetic {
			kind = "program"
		}
		if it.Status != "final" {
			kind += " (" + it.Status + ")"
		}
		if it.Tool == nil {
			text := short(it.Parts)
			if it.Synthetic {
				// Claude Code adds these words only when the model's answer had ended before the
				// interrupt arrived.
				text = strings.Replace(text, "[Request interrupted by user for tool use]", "[Request interrupted by user]", 1)
			}
			fmt.Fprintf(b, "%s%s: %s\n", indent, kind, text)
			continue
		}
		fmt.Fprintf(b, "%s%s %s %s %q: %s\n", indent, kind, it.Tool.Name, it.Tool.Status, it.Tool.Subject, short(it.Tool.Output))
		outlineItems(b, it.Tool.Items, indent+"  ")
	}
}

// short is the text of parts in one line; a long one is only named.
func short(parts []api.DialoguePart) string {
	var texts []string
	for _, p := range parts {
		text := p.Text
		if len(text) > 150 {
			text = "(long)"
		}
		texts = append(texts, text)
	}
	quoted := strconv.Quote(strings.Join(texts, "|"))
	return quoted[1 : len(quoted)-1]
}

// processes are those of the agent's session, by pid, with their command lines.
func (r *real) processes() map[int]string { return carriers(api.SessionMarker + "=" + r.session) }

// carriers are the processes that have a variable in their environment.
func carriers(mark string) map[int]string {
	list := map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !slices.ContainsFunc(bytes.Split(env, []byte{0}), func(kv []byte) bool { return string(kv) == mark }) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		args, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		list[pid] = string(bytes.ReplaceAll(bytes.TrimRight(args, "\x00"), []byte{0}, []byte{' '}))
	}
	return list
}

// runs reports whether a process of the agent has a command line that matches.
func (r *real) runs(regex string) bool {
	re := regexp.MustCompile(regex)
	for _, line := range r.processes() {
		if re.MatchString(line) {
			return true
		}
	}
	return false
}

// nothingLeft waits until no process of the agent is left, the commands of its tools included.
func (r *real) nothingLeft() {
	r.Helper()
	testkit.Eventually(r.T, fmt.Sprint("no process of session ", r.session, " is left"), func() bool { return len(r.processes()) == 0 })
}

// kill kills the program of the agent with SIGKILL, and only it.
func (r *real) kill() {
	r.Helper()
	all := r.processes()
	var pids []int
	for pid, line := range all {
		// One that it is about to start looks like it.
		if strings.HasPrefix(line, r.program+" ") && !strings.HasPrefix(all[parent(pid)], r.program+" ") {
			pids = append(pids, pid)
		}
	}
	if len(pids) != 1 {
		r.Fatalf("one process of %s is to be killed: %v of %v", r.program, pids, all)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		r.Fatal(err)
	}
}

// parent is the process that a process is a child of.
func parent(pid int) int {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The name may hold anything, a parenthesis too; the last one ends it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(fields[1])
	return ppid
}
