package vt

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// TestOracle compares random streams with the page's own terminal, and shows what differs; testdata/differences.md says what may. It runs where TRL_VT_ORACLE names a directory of Node modules with
// @xterm/headless 6.0.0 and @xterm/addon-unicode11; TRL_VT_STREAMS says how many streams of each kind, TRL_VT_SEED where they begin.
func TestOracle(t *testing.T) {
	modules := os.Getenv("TRL_VT_ORACLE")
	if modules == "" {
		t.Skip("TRL_VT_ORACLE is not set: the page's terminal is not here to compare with")
	}
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	o := startOracle(t, modules)
	count, first := number("TRL_VT_STREAMS", 200), number("TRL_VT_SEED", 1)
	for kind := range kinds {
		for _, resizes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/resizes=%v", kind, resizes), func(t *testing.T) {
				if only := os.Getenv("TRL_VT_KIND"); only != "" && only != kind {
					t.Skip("TRL_VT_KIND asks for another kind")
				}
				different, crashed := 0, 0
				for seed := first; seed < first+count; seed++ {
					s := newStream(kind, resizes, uint64(seed))
					d, crash := o.difference(s)
					if crash {
						crashed++
						continue
					}
					if d == "" {
						continue
					}
					different++
					if different <= 5 {
						small := o.minimize(s)
						d, _ := o.difference(small)
						t.Logf("%s: %s\n%s", s.Name, d, small)
					}
				}
				t.Logf("%d streams, %d different, %d on which the page threw an exception", count, different, crashed)
				if 200*different > count {
					t.Errorf("%d of %d streams differ: more than 0.5 %%", different, count)
				}
			})
		}
	}
}

// TestRecordGenerated writes testdata/generated.states.jsonl.gz anew, where TRL_VT_RECORD is set.
func TestRecordGenerated(t *testing.T) {
	modules := os.Getenv("TRL_VT_ORACLE")
	if modules == "" || os.Getenv("TRL_VT_RECORD") == "" {
		t.Skip("TRL_VT_ORACLE and TRL_VT_RECORD are not set: nothing is recorded")
	}
	o := startOracle(t, modules)
	var all bytes.Buffer
	compressed, _ := gzip.NewWriterLevel(&all, gzip.BestCompression)
	for _, s := range generatedStreams() {
		if _, err := compressed.Write(o.ask(s)); err != nil {
			t.Fatal(err)
		}
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("testdata/generated.states.jsonl.gz", all.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// oracle is the page's terminal in a process of its own, which ends with the test.
type oracle struct {
	t   *testing.T
	in  *json.Encoder
	out *bufio.Reader
}

func startOracle(t *testing.T, modules string) *oracle {
	cmd := exec.Command("node", "testdata/oracle.cjs")
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	return &oracle{t, json.NewEncoder(in), bufio.NewReader(out)}
}

// ask is the page's states for a stream, one line of JSON.
func (o *oracle) ask(s stream) []byte {
	if err := o.in.Encode(s); err != nil {
		o.t.Fatal(err)
	}
	answer, err := o.out.ReadBytes('\n')
	if err != nil {
		o.t.Fatal(err)
	}
	return answer
}

// difference is how we differ from the page on a stream, and whether the page threw an exception.
func (o *oracle) difference(s stream) (string, bool) {
	var want states
	if err := json.Unmarshal(o.ask(s), &want); err != nil {
		o.t.Fatal(err)
	}
	if want.Crashed {
		return "", true
	}
	for n, got := range s.run(0) {
		if d := got.difference(want.States[n]); d != "" {
			return fmt.Sprintf("state %d: %s", n, d), false
		}
	}
	return "", false
}

// minimize takes away what is not needed for a difference.
func (o *oracle) minimize(s stream) stream {
	differs := func(ops []op) bool {
		s := s
		s.Ops = ops
		d, crashed := o.difference(s)
		return d != "" && !crashed
	}
	ops := append([]op{}, s.Ops...)
	for again := true; again; {
		again = false
		for i := len(ops) - 1; i >= 0; i-- {
			if fewer := append(append([]op{}, ops[:i]...), ops[i+1:]...); differs(fewer) {
				ops, again = fewer, true
			}
		}
		for i := range ops {
			for size := len(ops[i].Write) / 2; size > 0; size /= 2 {
				for at := 0; at+size <= len(ops[i].Write); {
					less := append([]op(nil), ops...)
					less[i].Write = append(bytes.Clone(ops[i].Write[:at]), ops[i].Write[at+size:]...)
					if len(less[i].Write) > 0 && differs(less) {
						ops, again = less, true
					} else {
						at += size
					}
				}
			}
		}
	}
	s.Ops = ops
	return s
}

// String is a stream as a person reads it.
func (s stream) String() string {
	text := fmt.Sprintf("%dx%d", s.Cols, s.Rows)
	if s.Scrollback != nil {
		text += fmt.Sprintf(" with %d lines of scrollback", *s.Scrollback)
	}
	for _, o := range s.Ops {
		switch {
		case o.Resize != nil:
			text += fmt.Sprintf(" resize %dx%d", o.Resize[0], o.Resize[1])
		case o.Checkpoint != 0:
			text += " checkpoint"
		default:
			text += fmt.Sprintf(" %q", o.Write)
		}
	}
	return text
}
