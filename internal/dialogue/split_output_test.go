package dialogue

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// TestRecordingsInPieces: every recording makes the same events, at the same offsets, in pieces of
// any size.
func TestRecordingsInPieces(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join("agent", "*", "testdata", "*-*", "*.jsonl"))
	if len(files) < 80 {
		t.Fatalf("only %d recordings", len(files))
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for _, file := range files {
		if strings.HasSuffix(file, ".stdin.jsonl") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(filepath.Base(filepath.Dir(file)), "-")
		want := inPieces(t, name, text, func() int { return len(text) })
		for what, size := range map[string]func() int{
			"byte by byte": func() int { return 1 },
			"pieces":       func() int { return 1 + rng.IntN(1000) },
		} {
			if got := inPieces(t, name, text, size); got != want {
				t.Errorf("%s: %s: other events than at once", file, what)
			}
		}
	}
}

// inPieces returns the events of a program that writes text in pieces of these sizes, some of which
// are repeated.
func inPieces(t *testing.T, name string, text []byte, size func() int) string {
	t.Helper()
	a, err := findAgent(name)
	if err != nil {
		t.Fatal(err)
	}
	p := a.New(agent.Options{Epoch: 1, WorkingDir: "/home/user/project"})
	p.Start()
	l := lines{limit: 1 << 20}
	var told strings.Builder
	out := json.NewEncoder(&told)
	each := func(one line) {
		if len(one.text) == 0 {
			return
		}
		for _, ev := range p.Line(one.text).Events {
			ev.Offset = &one.start
			if err := out.Encode(ev); err != nil {
				t.Fatal(err)
			}
		}
	}
	for at := 0; at < len(text); {
		n := min(size(), len(text)-at)
		again := min(at, n)
		_, data := l.unseen(int64(at-again), text[at-again:at+n])
		l.add(data, each)
		at += n
	}
	told.WriteString(api.EventEnd + string(l.tail()))
	return told.String()
}
