package model_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/tests/dialogue/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post asks a model and returns the names of the events and their data.
func post(t *testing.T, url string, body any) (names []string, data []map[string]any, err error) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.Post(url, "application/json", strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(r.Body)
		return nil, nil, fmt.Errorf("%d %s", r.StatusCode, text)
	}
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			names = append(names, name)
		}
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var v map[string]any
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				t.Fatalf("%s: %s", text, err)
			}
			data = append(data, v)
		}
	}
	return names, data, lines.Err()
}

func user(text string) map[string]any { return map[string]any{"role": "user", "content": text} }

func assistant(text string) map[string]any {
	return map[string]any{"role": "assistant", "content": text}
}

func ask(messages ...map[string]any) map[string]any {
	return map[string]any{"model": "m", "stream": true, "messages": messages}
}

func TestNewestMarkerPicksTheScript(t *testing.T) {
	s := model.Anthropic(t)
	for _, c := range []struct {
		messages []map[string]any
		script   string
		step     int
	}{
		{[]map[string]any{user("say [[plain]]")}, "plain", 0},
		{[]map[string]any{user("[[plain]] or [[think]]")}, "think", 0},
		{[]map[string]any{user("[[plain]]"), assistant("hello"), user("and [[bash]]")}, "bash", 0},
		{[]map[string]any{user("[[bash]]"), assistant("first"), user("no marker")}, "bash", 1},
		{[]map[string]any{user("[[bash]]"), assistant("one [[plain]]"), assistant("two")}, "bash", 2},
		{[]map[string]any{user("[[bash]]"), assistant("call"), {"role": "user", "content": []any{
			map[string]any{"type": "tool_result", "tool_use_id": "x", "content": "printed [[plain]]"},
		}}}, "bash", 1},
	} {
		if _, _, err := post(t, s.URL+"/v1/messages", ask(c.messages...)); err != nil {
			t.Fatal(err)
		}
		requests := s.Requests()
		if r := requests[len(requests)-1]; r.Script != c.script || r.Step != c.step {
			t.Errorf("%v: step %d of %q", c.messages, r.Step, r.Script)
		}
	}
}

func TestIDsAreUnique(t *testing.T) {
	s := model.Anthropic(t)
	seen := map[any]bool{}
	for range 3 {
		_, data, err := post(t, s.URL+"/v1/messages", ask(user("[[parallel]]")))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range data {
			for _, field := range []string{"message", "content_block"} {
				if part, ok := v[field].(map[string]any); ok && part["id"] != nil {
					if seen[part["id"]] {
						t.Errorf("%v came before", part["id"])
					}
					seen[part["id"]] = true
				}
			}
		}
	}
	if len(seen) != 9 {
		t.Errorf("%d ids, not one message and two calls, three times: %v", len(seen), seen)
	}
}

func TestFaults(t *testing.T) {
	for name, s := range map[string]*model.Server{"/v1/messages": model.Anthropic(t), "/v1/responses": model.OpenAI(t)} {
		say := func(script string) ([]string, error) {
			names, _, err := post(t, s.URL+name, map[string]any{"stream": true, "messages": []any{user("[[" + script + "]]")}, "input": []any{map[string]any{
				"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": "[[" + script + "]]"}},
			}}})
			return names, err
		}
		for range 2 {
			if _, err := say("busy"); err == nil || !strings.Contains(err.Error(), "529") || !strings.Contains(err.Error(), "overloaded_error") {
				t.Errorf("%s: busy: %v", name, err)
			}
		}
		if _, err := say("busy"); err != nil {
			t.Errorf("%s: busy for the third time: %v", name, err)
		}
		for range 2 {
			if _, err := say("err400"); err == nil || !strings.Contains(err.Error(), "400") {
				t.Errorf("%s: err400: %v", name, err)
			}
		}
		names, err := say("cut")
		if err == nil || len(names) < 2 || strings.Contains(names[len(names)-1], "stop") || strings.Contains(names[len(names)-1], "completed") {
			t.Errorf("%s: cut: %v, %v", name, names, err)
		}
		if names, err := say("cut"); err != nil || len(names) < 5 {
			t.Errorf("%s: cut for the second time: %v, %v", name, names, err)
		}
	}
}

// TestCloseEndsWhatHolds: an answer without an end is no obstacle, and goleak looks at what is left.
func TestCloseEndsWhatHolds(t *testing.T) {
	s := model.Anthropic(t)
	r, err := http.Post(s.URL+"/v1/messages", "application/json", strings.NewReader(`{"stream":true,"messages":[{"role":"user","content":"[[hold]]"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	lines := bufio.NewReader(r.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "content_block_delta") {
			break
		}
	}
	s.Close()
	if _, err := io.ReadAll(lines); err == nil {
		t.Error("the answer ended as if it were whole")
	}
	http.DefaultClient.CloseIdleConnections()
}
