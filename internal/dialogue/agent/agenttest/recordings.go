package agenttest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/dialogue/agent"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Move is one input of a protocol: a line of the program, or a call.
type Move struct {
	Line []byte
	Call *agent.Call
}

// Recording is a conversation with a real program: its output, and the input that it got.
type Recording struct {
	Name string          // such as claude-2.1.325/a_plain
	Out  [][]byte        // the lines of the program, without their ends
	In   []RecordedInput // the lines for the program
	base string          // the path of its files, without their endings
}

// RecordedInput is a line for the program, and after how many lines of the program it came.
type RecordedInput struct {
	After int             `json:"after_stdout_lines"`
	Line  json.RawMessage `json:"line"`
}

// Recordings reads the recordings in the testdata of an agent's package, which is the current
// directory or, as in "../codex", a sibling.
func Recordings(t testing.TB, pkg string) []Recording {
	t.Helper()
	data := filepath.Join(pkg, "testdata")
	files, err := filepath.Glob(filepath.Join(data, "*-*", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings in %s: %v", data, err)
	}
	var all []Recording
	for _, file := range files {
		if strings.HasSuffix(file, ".stdin.jsonl") {
			continue
		}
		base := strings.TrimSuffix(file, ".jsonl")
		r := Recording{base: base, Out: Lines(t, file)}
		r.Name = filepath.ToSlash(strings.TrimPrefix(base, data+string(filepath.Separator)))
		if _, err := os.Stat(base + ".stdin.jsonl"); err == nil {
			for _, line := range Lines(t, base+".stdin.jsonl") {
				var in RecordedInput
				if err := json.Unmarshal(line, &in); err != nil {
					t.Fatalf("%s: %v", base, err)
				}
				r.In = append(r.In, in)
			}
		}
		all = append(all, r)
	}
	return all
}

// Lines reads the lines of a file, without empty ones.
func Lines(t testing.TB, file string) [][]byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for line := range bytes.SplitSeq(b, []byte("\n")) {
		if line = bytes.TrimSuffix(line, []byte("\r")); len(line) > 0 {
			out = append(out, line)
		}
	}
	return out
}

// Golden compares a text with a file below testdata/golden; with -update it writes the file.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", filepath.FromSlash(name)+".json")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (run with -update)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs from what is expected (-update writes it anew; look at the difference):\n%s", file, Difference(string(want), got))
	}
}

// Difference shows the first lines in which two texts differ.
func Difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	at := 0
	for at < len(w) && at < len(g) && w[at] == g[at] {
		at++
	}
	part := func(s []string) string { return strings.Join(s[max(0, at-3):min(len(s), at+8)], "\n") }
	return fmt.Sprintf("line %d\n--- want\n%s\n--- got\n%s", at+1, part(w), part(g))
}
