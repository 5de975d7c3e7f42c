package agent_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"testing"

	"github.com/trl-dev/trl/internal/dialogue/agent"
)

var junk = []string{`null`, `5`, `-1.5`, `"x"`, `""`, `[]`, `{}`, `[1]`, `true`, `[null,5,{"type":"text","text":7},{"type":"odd","a":[1, 2]}]`, `["a","b"]`, `{"type":"x","a":{"b": 1}}`, `1e99`, `[{"type":"text","text":"hi"},{"type":"image","source":{"media_type":"a/b","data":"AA"}},{"type":"image","source":3}]`, `[{"task_id":"x"}]`, `"\ud800 é <b>"`}

type slot struct {
	set func(any)
	del func()
}

func slots(v any, set func(any), del func(), out *[]slot) {
	*out = append(*out, slot{set, del})
	switch x := v.(type) {
	case map[string]any:
		keys := []string{}
		for k := range x {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			slots(x[k], func(n any) { x[k] = n }, func() { delete(x, k) }, out)
		}
	case []any:
		for i := range x {
			slots(x[i], func(n any) { x[i] = n }, func() {}, out)
		}
	}
}

func mutate(r *rand.Rand, line []byte) []byte {
	var v any
	if json.Unmarshal(line, &v) != nil {
		return line
	}
	for range 1 + r.IntN(3) {
		var all []slot
		slots(v, func(n any) { v = n }, func() {}, &all)
		s := all[r.IntN(len(all))]
		if r.IntN(5) == 0 {
			s.del()
		} else {
			s.set(json.RawMessage(junk[r.IntN(len(junk))]))
		}
		b, _ := json.Marshal(v)
		v = nil
		json.Unmarshal(b, &v)
	}
	b, _ := json.Marshal(v)
	return b
}

func TestZZDump(t *testing.T) {
	name := os.Getenv("DUMP")
	if name == "" {
		t.Skip()
	}
	f, _ := os.Create(name)
	defer f.Close()
	w := bufio.NewWriter(f)
	defer w.Flush()
	a, _ := agent.Find("claude")
	for i, r := range recordings(t, "claude") {
		moves := claudeMoves(t, r)
		for seed := range uint64(25) {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			p := a.New(claudeOptions(r))
			step := func(s agent.Step) {
				b, err := json.Marshal(s)
				if err != nil {
					t.Fatal(err)
				}
				w.Write(b)
				w.WriteByte('\n')
			}
			step(p.Start())
			for j, m := range moves {
				if m.call != nil {
					step(p.Do(*m.call))
					continue
				}
				line := m.line
				if seed > 0 && random.IntN(4) == 0 {
					line = mutate(random, line)
				}
				fmt.Fprintf(w, "%s/%d/%d %s\n", r.name, seed, j, line)
				step(p.Line(line))
			}
		}
	}
}
