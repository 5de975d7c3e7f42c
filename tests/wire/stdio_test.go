package wire_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/tests/trltest"
)

// TestEndOfStdio: at the end of the input, the commands with an open stdin get all that was written to
// them, and then their own end, because no client can write to them any more.
func TestEndOfStdio(t *testing.T) {
	for _, method := range []string{"exec.stream", "exec.start"} {
		d := trltest.Start(t, trltest.Stdio())
		watchdog := time.AfterFunc(patience, func() { d.Stdout.Close() })
		out := bufio.NewReader(d.Stdout)
		fmt.Fprintln(d.Stdin, `{"id":1,"method":"session.create","params":{"name":"a"}}`)
		fmt.Fprintf(d.Stdin, `{"id":2,"method":%q,"params":{"session_id":"a","command":"cat; echo over","stdin_open":true}}`+"\n", method)
		var start struct {
			ID   int
			Data struct {
				ExecID string `json:"exec_id"`
			}
		}
		for start.ID != 2 {
			line, err := out.ReadString('\n')
			if err != nil || json.Unmarshal([]byte(line), &start) != nil {
				t.Fatalf("%q, %v", line, err)
			}
		}
		fmt.Fprintf(d.Stdin, `{"id":3,"method":"exec.input","params":{"exec_id":%q,"data":"all of it"}}`+"\n", start.Data.ExecID)
		fmt.Fprintf(d.Stdin, `{"id":4,"method":"exec.wait","params":{"exec_ids":[%q]}}`, start.Data.ExecID) // which ends with it
		if err := d.Stdin.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(out)
		if err != nil {
			t.Fatalf("%s: %v after %s", method, err, text)
		}
		watchdog.Stop()
		want := []string{`{"id":3,"ok":true`, `{"id":4,"ok":true`, `"exit_code":0`}
		if method == "exec.stream" {
			want = append(want, "all of it", "over", `"type":"exit"`)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s: no %s in %s", method, part, text)
			}
		}
	}
}

// TestEndOfStdioForAProgram: the same holds for the program of a session, which session.input feeds.
func TestEndOfStdioForAProgram(t *testing.T) {
	d := trltest.Start(t, trltest.Stdio())
	watchdog := time.AfterFunc(patience, func() { d.Stdout.Close() })
	out := bufio.NewReader(d.Stdout)
	fmt.Fprintln(d.Stdin, `{"id":1,"method":"session.create","params":{"name":"a","kind":"program","command":["sh","-c","cat; echo over"]}}`)
	var created struct {
		Data struct {
			ExecID string `json:"exec_id"`
		}
	}
	line, err := out.ReadString('\n')
	if err != nil || json.Unmarshal([]byte(line), &created) != nil || created.Data.ExecID == "" {
		t.Fatalf("%q, %v", line, err)
	}
	fmt.Fprintln(d.Stdin, `{"id":2,"method":"session.input","params":{"session_id":"a","text":"all of it"}}`)
	fmt.Fprintf(d.Stdin, `{"id":3,"method":"exec.stream","params":{"exec_id":%q}}`, created.Data.ExecID) // which ends with it
	if err := d.Stdin.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(out)
	if err != nil {
		t.Fatalf("%v after %s", err, text)
	}
	watchdog.Stop()
	for _, part := range []string{`{"id":2,"ok":true`, "all of it", "over", `"type":"exit"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
}
