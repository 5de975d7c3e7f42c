package hook_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/hook"
	"github.com/trl-dev/trl/internal/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = []byte("the key of the tests, 32 bytes.")

// logged is a log that tests read.
type logged struct {
	mu    sync.Mutex
	text  bytes.Buffer
	lines chan struct{}
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.lines <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start starts a Hook with short pauses.
func start(t *testing.T, c hook.Config) (*hook.Hook, *logged) {
	t.Helper()
	log := &logged{lines: make(chan struct{}, 1024)}
	c.Key, c.Logger, c.Pause = key, slog.New(slog.NewTextHandler(log, nil)), time.Millisecond
	if c.Waits == nil {
		c.Waits = func(api.RequestReport) bool { return true }
	}
	h := hook.New(c)
	t.Cleanup(h.Close)
	return h, log
}

// await waits for a line in the log.
func (l *logged) await(t *testing.T, part string) {
	t.Helper()
	late := time.After(time.Minute)
	for !strings.Contains(l.String(), part) {
		select {
		case <-l.lines:
		case <-late:
			t.Fatalf("the log has no %q:\n%s", part, l)
		}
	}
}

var report = api.RequestReport{Type: "dialogue.request_opened", ID: "d-1/r1", DialogueID: "d-1", RequestID: "r1", Agent: "claude", Kind: "permission", Tool: "Bash", Subject: "rm -r build"}

// post is a request that a receiver got.
type post struct {
	header http.Header
	body   []byte
}

// receive serves a receiver that answers with these statuses, one after the other, and then with 200.
func receive(t *testing.T, statuses ...int) (*httptest.Server, <-chan post) {
	t.Helper()
	got := make(chan post, 100)
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if i := int(n.Add(1)) - 1; i < len(statuses) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(statuses[i])
		}
		got <- post{r.Header, body}
	}))
	t.Cleanup(s.Close)
	return s, got
}

func next(t *testing.T, got <-chan post) post {
	t.Helper()
	select {
	case p := <-got:
		return p
	case <-time.After(time.Minute):
		t.Fatal("nothing was posted")
		return post{}
	}
}

// TestPost: a report is posted again until the receiver has it, each time signed, with the same id.
func TestPost(t *testing.T) {
	s, got := receive(t, 500, 429, 503)
	h, _ := start(t, hook.Config{URL: s.URL + "/hook"})
	h.Report(report)
	for range 4 {
		p := next(t, got)
		var r api.RequestReport
		if err := json.Unmarshal(p.body, &r); err != nil || r != report {
			t.Errorf("%s: %v", p.body, err)
		}
		id, at := p.header.Get("Webhook-Id"), p.header.Get("Webhook-Timestamp")
		if want := hook.Sign(key, "d-1/r1", at, p.body); id != "d-1/r1" || at == "" || p.header.Get("Webhook-Signature") != want {
			t.Errorf("header %v, want signature %s", p.header, want)
		}
	}
	second := report
	second.ID = "d-1/r2"
	h.Report(second) // the fourth attempt was the last one for the first report
	if p := next(t, got); p.header.Get("Webhook-Id") != "d-1/r2" {
		t.Errorf("posted once more: %v", p.header)
	}
}

// TestSign compares with the example of the Standard Webhooks specification's reference libraries.
func TestSign(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := hook.LoadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	got := hook.Sign(k, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestFinal: a redirect is not followed, and an answer that will not change is not asked for again.
func TestFinal(t *testing.T) {
	for _, status := range []int{301, 302, 307, 308, 400, 403, 404} {
		s, got := receive(t, status)
		h, log := start(t, hook.Config{URL: s.URL + "/secret-path"})
		h.Report(report)
		log.await(t, "could not be reported")
		next(t, got)
		if len(got) > 0 {
			t.Errorf("%d: posted again", status)
		}
		if text := log.String(); strings.Contains(text, "secret-path") || strings.Contains(text, "rm -r") {
			t.Errorf("the log has a secret: %s", text)
		}
	}
}

// TestDead: a receiver that is not there delays no caller, and its URL is not in the log.
func TestDead(t *testing.T) {
	s, _ := receive(t)
	s.Close()
	h, log := start(t, hook.Config{URL: s.URL + "/secret-path"})
	for range 1000 { // returns at once: most of them are dropped
		h.Report(report)
	}
	log.await(t, "too many reports wait")
	log.await(t, "gave up after 6 attempts")
	if strings.Contains(log.String(), "secret-path") {
		t.Errorf("the log has a secret: %s", log)
	}
}

// TestSlow: an attempt ends with its time, and the next one is made.
func TestSlow(t *testing.T) {
	var n atomic.Int64
	var once sync.Once
	done := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if n.Add(1) == 1 {
			<-r.Context().Done() // the client has gone
			return
		}
		once.Do(func() { close(done) })
	}))
	defer s.Close()
	h, _ := start(t, hook.Config{URL: s.URL, Timeout: 2 * time.Second})
	h.Report(report)
	<-done
}

// TestClose: Close does not wait for a receiver that does not answer.
func TestClose(t *testing.T) {
	came := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(came)
		<-r.Context().Done()
	}))
	defer s.Close()
	h, _ := start(t, hook.Config{URL: s.URL, Timeout: time.Hour})
	h.Report(report)
	<-came
	h.Close()
}

// TestAnswered: a request that was answered meanwhile is not reported.
func TestAnswered(t *testing.T) {
	s, got := receive(t, 500)
	var answered atomic.Bool
	h, _ := start(t, hook.Config{URL: s.URL, Waits: func(r api.RequestReport) bool { return r.RequestID == "r2" || !answered.Swap(true) }})
	h.Report(report)
	next(t, got) // the second attempt is not made
	second := report
	second.ID, second.RequestID = "d-1/r2", "r2"
	h.Report(second)
	if p := next(t, got); p.header.Get("Webhook-Id") != "d-1/r2" {
		t.Errorf("posted %v", p.header)
	}
}

// TestCommand: the command has the report on its stdin and nothing of it in its arguments; one that
// fails or does not end is in the log, without the command.
func TestCommand(t *testing.T) {
	reaper := process.NewReaper()
	defer reaper.Close()
	file := filepath.Join(t.TempDir(), "got")
	large := report
	large.Subject = strings.Repeat("x", 1<<20) // more than a pipe holds
	for _, c := range []struct {
		command, log string
		timeout      time.Duration
		report       api.RequestReport
	}{
		{"cat >" + file + "; exit 3 # secret-word", "exit status 3", time.Minute, report},
		{"exec 2>/dev/null; sleep 1000 & wait; : secret-word", "did not end within", 500 * time.Millisecond, report},
		{"exec 2>/dev/null; sleep 1000 & wait; : secret-word", "did not end within", 500 * time.Millisecond, large},
		{"exit 4", "exit status 4", time.Minute, report}, // it does not read its stdin
	} {
		h, log := start(t, hook.Config{Command: c.command, Start: reaper.Start, Timeout: c.timeout})
		h.Report(c.report)
		log.await(t, c.log)
		if text := log.String(); strings.Contains(text, "secret-word") || strings.Contains(text, "rm -r") {
			t.Errorf("the log has a secret: %s", text)
		}
		h.Close()
	}
	text, err := os.ReadFile(file)
	var got api.RequestReport
	if err != nil || json.Unmarshal(text, &got) != nil || got != report {
		t.Errorf("stdin: %s, %v", text, err)
	}
}

// TestLoadKey: a key is made once; a file that others can read, or that has no key, is refused.
func TestLoadKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	first, err := hook.LoadKey(path)
	if err != nil || len(first) != 32 {
		t.Fatalf("%x, %v", first, err)
	}
	if again, err := hook.LoadKey(path); err != nil || !bytes.Equal(first, again) {
		t.Errorf("%x, %v", again, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := hook.LoadKey(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("readable by others: %v", err)
	}
	for _, text := range []string{"", "whsec_", "whsec_c2hvcnQ=", "secret-word-that-is-no-key-at-all", "whsec_!" + strings.Repeat("A", 40)} {
		bad := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := hook.LoadKey(bad); err == nil || text != "" && len(text) > 10 && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
