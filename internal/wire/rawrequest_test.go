package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/wire"
)

func TestRawLength(t *testing.T) {
	for line, want := range map[string]int{
		`{"id":1,"method":"m","raw":7}`:           7,
		`{"id":1,"raw":2147483647}`:               1<<31 - 1,
		`{"id":1,"raw":true}`:                     0,
		`{"id":1,"raw":0}`:                        0,
		`{"id":1,"raw":-1}`:                       0,
		`{"id":1,"raw":+1}`:                       0,
		`{"id":1,"raw":1.0}`:                      0,
		`{"id":1,"raw":1e3}`:                      0,
		`{"id":1,"raw":"7"}`:                      0,
		`{"id":1,"raw":99999999999999999999}`:     0,
		`{"id":1,"raw":7,"method":"m"}`:           0,
		`{"id":1,"params":{"a":1,"raw":7}}`:       0,
		`{"id":1,"draw":7}`:                       0,
		`{"id":1,"a,\"raw":7}`:                    0,
		`{"id":1,"params":"{\"a\":1,\"raw\":7}"}`: 0,
		``:    0,
		`}`:   0,
		`7}`:  0,
		`:7}`: 0,
	} {
		if got := wire.RawLength([]byte(line)); got != want {
			t.Errorf("%s: %d, want %d", line, got, want)
		}
	}
}

// TestRawRequest: a request with raw bytes is read as it was written, also between other lines and
// in pieces of any size.
func TestRawRequest(t *testing.T) {
	var sent bytes.Buffer
	bodies := []string{"\n{}\n", "\x00\xff", strings.Repeat("x\n", 100_000), "y"}
	for i, body := range bodies {
		e := wire.NewEncoder()
		if err := e.RequestWith(uint64(i), "exec.input", api.ExecInputParams{ExecID: "x"}, len(body)); err != nil {
			t.Fatal(err)
		}
		if err := e.Value("behind"); err != nil {
			t.Fatal(err)
		}
		line, behind, _ := strings.Cut(string(e.Bytes()), "\n")
		sent.WriteString(line + "\n" + body + behind)
		e.Release()
	}
	budget := wire.NewBudget(1 << 20)
	for _, src := range []io.Reader{bytes.NewReader(sent.Bytes()), iotest.OneByteReader(bytes.NewReader(sent.Bytes())), iotest.DataErrReader(bytes.NewReader(sent.Bytes()))} {
		r := wire.NewReader(src, 1<<20, 0, budget)
		for _, body := range bodies {
			line, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			req, bad := wire.ParseRequest(line)
			if bad != nil || req.Method != "exec.input" || string(req.Params) != `{"exec_id":"x"}` || req.Raw || wire.RawLength(line) != len(body) {
				t.Fatalf("%q: %+v, %v", line, req, bad)
			}
			got, taken, err := r.Attached(wire.RawLength(line))
			if err != nil || string(got) != body || (taken == 0) != (len(body) <= 64<<10) {
				t.Fatalf("%d bytes, %d taken, %v", len(got), taken, err)
			}
			budget.Return(taken)
			if line, err := r.Next(); err != nil || string(line) != `"behind"` {
				t.Fatalf("%q, %v", line, err)
			}
		}
		if line, err := r.Next(); err != io.EOF {
			t.Errorf("%q, %v", line, err)
		}
	}
	if left := wire.BudgetLeft(budget); left != 1<<20 {
		t.Errorf("%d bytes of the budget are left", left)
	}
}

// TestRefusedBytes: raw bytes that are too many are skipped, and the following lines are read.
func TestRefusedBytes(t *testing.T) {
	budget := wire.NewBudget(200_000)
	text := "{}\n" + strings.Repeat("\n", 100_001) + "{}\n" + strings.Repeat("\n", 90_000) + "{}\n" + strings.Repeat("\n", 90_000) + "{}\n" +
		strings.Repeat("\n", 90_000) + "{}\nend\ncut"
	r := wire.NewReader(strings.NewReader(text), 100_000, 0, budget)
	taken := int64(0)
	for _, c := range []struct {
		n    int
		code api.Code
	}{{100_001, api.CodeRequestTooLarge}, {90_000, ""}, {90_000, ""}, {90_000, api.CodeResourcePressure}} {
		if line, err := r.Next(); err != nil || string(line) != "{}" {
			t.Fatalf("%q, %v", line, err)
		}
		body, n, err := r.Attached(c.n)
		taken += n
		var refused *wire.Refused
		if c.code == "" && (err != nil || len(body) != c.n) {
			t.Errorf("%d bytes: %d, %v", c.n, len(body), err)
		}
		if c.code != "" && (!errors.As(err, &refused) || refused.Cause.Code != c.code || body != nil) {
			t.Errorf("%d bytes: %d, %v", c.n, len(body), err)
		}
	}
	if line, err := r.Next(); err != nil || string(line) != "{}" {
		t.Fatalf("%q, %v", line, err)
	}
	if line, err := r.Next(); err != nil || string(line) != "end" {
		t.Fatalf("%q, %v", line, err)
	}
	if body, n, err := r.Attached(80_000); !errors.Is(err, io.ErrUnexpectedEOF) || n != 0 {
		t.Errorf("%q, %d, %v", body, n, err)
	}
	budget.Return(taken)
	if left := wire.BudgetLeft(budget); left != 200_000 {
		t.Errorf("%d bytes of the budget are left", left)
	}
}

func TestRawAnswer(t *testing.T) {
	e := wire.NewEncoder()
	defer e.Release()
	if err := e.RawAnswer(json.RawMessage(`"1"`), struct{}{}); err != nil {
		t.Fatal(err)
	}
	if got := string(e.Bytes()); got != `{"id":"1","ok":true,"data":{},"raw":true}`+"\n" {
		t.Error(got)
	}
	for line, want := range map[string]bool{
		`{"id":"1","ok":true,"data":{},"raw":true}`: true, `{"id":"1","ok":true,"data":{"raw":true}}`: false, `{"id":"1","ok":true,"raw":1}`: false,
	} {
		if m, err := wire.ParseMessage([]byte(line)); err != nil || m.TakesRaw != want {
			t.Errorf("%s: %+v, %v", line, m, err)
		}
	}
}

func TestBeside(t *testing.T) {
	for _, c := range []struct {
		message string
		raw     wire.Raw
		want    string
	}{
		{`{"id":1,"method":"exec.input","params":{"exec_id":"x"}}`, wire.Raw{"data": []byte("a")}, "a"},
		{`{"id":1,"method":"exec.input","params":{"exec_id":"x","data":"b"}}`, wire.Raw{"data": []byte("a")}, ""},
		{`{"id":1,"method":"exec.input","params":{"exec_id":"x"}}`, wire.Raw{"data": []byte("a"), "b": nil}, ""},
		{`{"id":1,"method":"exec.input","params":{"exec_id":"x"}}`, wire.Raw{"stdin": []byte("a")}, ""},
		{`{"id":1,"method":"exec.run","params":{}}`, wire.Raw{"data": []byte("a")}, ""},
		{`{"id":1,"id":2,"method":"exec.input"}`, wire.Raw{"data": []byte("a")}, ""},
		{`[]`, wire.Raw{"data": []byte("a")}, ""},
	} {
		if got := wire.Beside([]byte(c.message), c.raw); string(got) != c.want {
			t.Errorf("%s: %q, want %q", c.message, got, c.want)
		}
	}
}

// FuzzRawLength: in a line that is JSON, the length is the member "raw" of the outer object.
func FuzzRawLength(f *testing.F) {
	f.Add([]byte(`{"id":1,"raw":7}`))
	f.Add([]byte(`{"a,\"raw":7}`))
	f.Add([]byte(`{"a":{"b":1,"raw":7}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		n := wire.RawLength(line)
		if n == 0 || !json.Valid(line) {
			return
		}
		var members struct {
			Raw int `json:"raw"`
		}
		if err := json.Unmarshal(line, &members); err != nil || members.Raw != n {
			t.Errorf("%q: %d, encoding/json has %d, %v", line, n, members.Raw, err)
		}
	})
}
