package vt_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// stream is what is written to a terminal: see oracle.cjs.
type stream struct {
	Name string `json:"name"`
	Cols int    `json:"cols"`
	Rows int    `json:"rows"`
	Ops  []op   `json:"ops"`
}

type op struct {
	Write      []byte `json:"w,omitempty"`
	Resize     []int  `json:"r,omitempty"`
	Checkpoint int    `json:"c,omitempty"`
}

// MarshalJSON writes what is there: an op without anything is a write of nothing.
func (o op) MarshalJSON() ([]byte, error) {
	switch {
	case o.Resize != nil:
		return json.Marshal(map[string]any{"r": o.Resize})
	case o.Checkpoint != 0:
		return json.Marshal(map[string]any{"c": o.Checkpoint})
	}
	return json.Marshal(map[string]any{"w": o.Write})
}

// job is what "oracle.cjs resume" is asked: a stream and snapshots of ours, taken after some bytes of some op.
type job struct {
	stream
	Cuts []cut `json:"cuts"`
}

type cut struct {
	Op       int    `json:"op"`
	Byte     int    `json:"byte"`
	Snapshot []byte `json:"snapshot"`
}

// outcome is its answer. A, B and Text are what is different: of the whole state after loading the snapshot and at the end of the stream, and of
// text and cursor at the end. It is empty where all is equal.
type outcome struct {
	Name    string `json:"name"`
	Results []struct {
		A, B, Text string
		Reply      string // what the snapshot made it answer
		Crashed    string // xterm.js threw on the stream itself
		Broken     string // xterm.js threw on the snapshot
	} `json:"results"`
}

// TestSnapshotContinuesInXterm is the promise of a snapshot, with the terminal that pages run: cut a stream at any byte, load the snapshot of
// our model into a fresh xterm.js, go on with the rest, and come out where the uncut stream does.
func TestSnapshotContinuesInXterm(t *testing.T) {
	oracle := installOracle(t)
	for _, kind := range []struct {
		name       string
		cuts       int
		full, text float64 // how many of a hundred have to be equal, in everything, in text and cursor
	}{{"real", 15, 99.5, 100}, {"rand", 2, 99.5, 100}} {
		t.Run(kind.name, func(t *testing.T) { continueInXterm(t, oracle, kind.name, kind.cuts, kind.full, kind.text) })
	}
}

func continueInXterm(t *testing.T, oracle, kind string, cuts int, full, text float64) {
	random := rand.New(rand.NewPCG(3, 4))
	var jobs []job
	for _, s := range readStreams(t, kind) {
		j := job{stream: s}
		for range cuts {
			at := random.IntN(len(s.Ops))
			n := random.IntN(len(s.Ops[at].Write) + 1)
			j.Cuts = append(j.Cuts, cut{at, n, snapshotAt(s, at, n)})
		}
		jobs = append(jobs, j)
	}

	var total, a, b, seen, crashed int
	for i, o := range resume(t, oracle, jobs) {
		for k, r := range o.Results {
			where := fmt.Sprintf("%s: op %d byte %d", o.Name, jobs[i].Cuts[k].Op, jobs[i].Cuts[k].Byte)
			if r.Reply != "" || r.Broken != "" {
				t.Errorf("%s: the snapshot was answered with %q, or broke xterm.js: %s", where, r.Reply, r.Broken)
			}
			if r.Crashed != "" { // its state after an exception is no reference
				crashed++
				continue
			}
			total++
			for _, c := range []struct {
				name, different string
				equal           *int
			}{{"after loading", r.A, &a}, {"at the end", r.B, &b}, {"text at the end", r.Text, &seen}} {
				if c.different == "" {
					*c.equal++
				} else {
					t.Logf("%s: %s: %s", where, c.name, shorten(c.different))
				}
			}
		}
	}
	percent := func(n int) float64 { return 100 * float64(n) / float64(total) }
	t.Logf("%d cuts (and %d of streams that xterm.js itself throws on): equal after loading %.2f %%, at the end %.2f %%, text and cursor at the end %.2f %%",
		total, crashed, percent(a), percent(b), percent(seen))
	if total == 0 || percent(b) < full || percent(seen) < text {
		t.Errorf("want at least %v %% at the end, and %v %% in text and cursor", full, text)
	}
}

func shorten(s string) string {
	s = fmt.Sprintf("%q", s)
	return s[:min(len(s), 600)]
}

// snapshotAt is the snapshot of our model after n bytes of an op.
func snapshotAt(s stream, at, n int) []byte {
	term := vt.New(vt.Config{Cols: s.Cols, Rows: s.Rows, Scrollback: 10000})
	for _, o := range s.Ops[:at] {
		if o.Resize != nil {
			term.Resize(o.Resize[0], o.Resize[1])
		} else {
			term.Write(o.Write)
		}
	}
	term.Write(s.Ops[at].Write[:n])
	return term.Snapshot(-1)
}

func readStreams(t *testing.T, kind string) []stream {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "internal", "terminal", "vt", "testdata", kind+".streams.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all []stream
	for d := json.NewDecoder(z); ; {
		var s stream
		if err := d.Decode(&s); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
}

// resume asks the oracle.
func resume(t *testing.T, oracle string, jobs []job) []outcome {
	t.Helper()
	var in bytes.Buffer
	for _, j := range jobs {
		if err := json.NewEncoder(&in).Encode(j); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "node", "oracle.cjs", "resume")
	cmd.Dir = oracle
	cmd.Stdin = &in
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node oracle.cjs resume: %s", err)
	}
	var all []outcome
	for lines := bufio.NewReader(bytes.NewReader(out)); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var o outcome
		if err := json.Unmarshal(line, &o); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	if len(all) != len(jobs) {
		t.Fatalf("%d answers to %d jobs", len(all), len(jobs))
	}
	return all
}

// noNetwork is the error of npm without a network. There is no oracle then, and the test is skipped.
var noNetwork = regexp.MustCompile(`ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED`)

// installOracle installs what package-lock.json says into a directory of its own, and returns it.
func installOracle(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT TESTED against xterm.js: %s is not installed", tool)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "oracle.cjs"} {
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		if noNetwork.Match(out) {
			t.Skipf("NOT TESTED against xterm.js: npm ci finds no registry: %s", strings.TrimSpace(string(out)))
		}
		t.Fatalf("npm ci: %s\n%s", err, out)
	}
	return dir
}
