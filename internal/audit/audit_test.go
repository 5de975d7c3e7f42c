package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// fake answers every method with zero values.
type fake struct {
	api.Service
	err error
}

func (f fake) SessionCreate(context.Context, api.SessionCreateParams) (api.SessionInfo, error) {
	return api.SessionInfo{SessionID: "s-1"}, f.err
}

func (f fake) SessionInput(context.Context, api.SessionInputParams) (api.SessionInputResult, error) {
	return api.SessionInputResult{}, f.err
}

func (f fake) ExecRun(_ context.Context, p api.ExecParams) (api.ExecResult, error) {
	return api.ExecResult{SessionID: "s-1", ExecID: "x-1-1"}, f.err
}

func open(t testing.TB, dir string, change func(*Config)) *Log {
	t.Helper()
	c := Config{Dir: dir, MaxBytes: 1 << 20}
	if change != nil {
		change(&c)
	}
	l, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// written waits until the log has this many records, and returns them.
func written(t testing.TB, l *Log, n int64) []api.AuditRecord {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := l.Wait(ctx, n-1); err != nil {
		t.Fatal(err)
	}
	r, err := l.List(ctx, api.AuditListParams{Limit: api.MaxAuditLimit})
	if err != nil {
		t.Fatal(err)
	}
	return r.Records
}

func verified(t testing.TB, l *Log) api.AuditVerifyResult {
	t.Helper()
	r, err := l.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var uid = 1000

func from(pid int) context.Context {
	return api.WithCaller(context.Background(), &api.Caller{Transport: "socket", UID: &uid, PID: pid})
}

func TestRecordsSayWhoDidWhat(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	s := l.Wrap(fake{}, &api.Caller{Transport: "mcp"})
	_, _ = s.SessionCreate(from(7), api.SessionCreateParams{Name: "build", Env: map[string]string{"KEY": "secret"}})
	_, _ = s.ExecRun(context.Background(), api.ExecParams{SessionID: "build", Command: "the secret command"})
	s.Service = fake{err: api.Errorf(api.CodeSessionNotFound, "gone")}
	_, _ = s.SessionInput(from(7), api.SessionInputParams{SessionID: "old"})
	got := written(t, l, 3)
	want := []struct{ method, outcome, session, exec, caller string }{
		{"session.create", "ok", "s-1", "", "socket"}, {"exec.run", "ok", "s-1", "x-1-1", "mcp"}, {"session.input", "SESSION_NOT_FOUND", "old", "", "socket"},
	}
	for i, w := range want {
		r := got[i]
		if r.Seq != int64(i+1) || r.Method != w.method || r.Outcome != w.outcome || r.SessionID != w.session || r.ExecID != w.exec || r.Caller.Transport != w.caller || r.Content != "" {
			t.Errorf("record %d: %+v", i, r)
		}
	}
	text := readAll(t, l.cfg.Dir)
	if strings.Contains(text, "secret") {
		t.Errorf("the log has content: %s", text)
	}
	if r := verified(t, l); !r.OK || r.Records != 3 || r.LastHash != got[2].Hash {
		t.Errorf("verify: %+v", r)
	}
	info, err := os.Stat(filepath.Join(l.cfg.Dir, nameOf(1)))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the file: %v, %v", info.Mode(), err)
	}
}

func readAll(t testing.TB, dir string) string {
	t.Helper()
	paths, err := list(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return string(all)
}

func TestContentHasNoValuesOfVariables(t *testing.T) {
	l := open(t, t.TempDir(), func(c *Config) { c.Content = true })
	s := l.Wrap(fake{}, nil)
	_, _ = s.ExecRun(from(1), api.ExecParams{SessionID: "build", Command: "make " + strings.Repeat("x", maxContent), Env: map[string]string{"KEY": "secret"}})
	_, _ = s.SessionCreate(from(1), api.SessionCreateParams{Name: "build", Env: map[string]string{"KEY": "secret"}})
	got := written(t, l, 2)
	if !strings.Contains(got[0].Content, "make") || len(got[0].Content) > maxContent+8 || !strings.Contains(got[1].Content, `"KEY":"…"`) {
		t.Errorf("%.200q, %q", got[0].Content, got[1].Content)
	}
	if strings.Contains(readAll(t, l.cfg.Dir), "secret") {
		t.Error("the log has the value of a variable")
	}
}

// TestEveryMethodThatChangesSomethingIsRecorded keeps methods.go complete.
func TestEveryMethodThatChangesSomethingIsRecorded(t *testing.T) {
	for _, m := range api.Methods() {
		if _, own := reflect.TypeFor[*Service]().MethodByName(methodName(m)); !own {
			t.Fatalf("%s: has no Go method", m.Name)
		}
		l := open(t, t.TempDir(), nil)
		func() {
			defer func() { _ = recover() }() // the fake has no such method
			_, _ = m.Call(from(1), l.Wrap(fake{}, nil), []byte(`{}`))
		}()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if recorded := l.Last() == 1; recorded != (m.Access != api.AccessRead) {
			t.Errorf("%s: access %s, recorded: %v", m.Name, m.Access, recorded)
		}
	}
}

func methodName(m api.Method) string {
	noun, verb, _ := strings.Cut(m.Name, ".")
	if verb == "http" {
		verb = "HTTP"
	}
	return strings.ToUpper(noun[:1]) + noun[1:] + strings.ToUpper(verb[:1]) + verb[1:]
}

func TestReadersAreNotRecorded(t *testing.T) {
	for name, params := range map[string]string{"session.attach": `{"session_id":"s","read_only":true}`, "exec.stream": `{"exec_id":"x-1-1"}`} {
		m, _ := api.FindMethod(name)
		l := open(t, t.TempDir(), nil)
		func() {
			defer func() { _ = recover() }()
			_, _ = m.Call(from(1), l.Wrap(fake{}, nil), []byte(params))
		}()
		if _ = l.Close(); l.Last() != 0 {
			t.Errorf("%s %s: is recorded", name, params)
		}
	}
}

func TestRepeatedInputIsCounted(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	s := l.Wrap(fake{}, nil)
	for range 100 {
		_, _ = s.SessionInput(from(1), api.SessionInputParams{SessionID: "s-1"})
	}
	_, _ = s.SessionInput(from(2), api.SessionInputParams{SessionID: "s-1"})
	_ = l.Close()
	total := map[int]int64{}
	rows := 0
	for row := range strings.Lines(readAll(t, l.cfg.Dir)) {
		var r api.AuditRecord
		if err := json.Unmarshal([]byte(row), &r); err != nil {
			t.Fatal(err)
		}
		rows++
		total[r.Caller.PID] += max(1, r.Count)
	}
	if rows != 3 || total[1] != 100 || total[2] != 1 {
		t.Errorf("%d rows, %v", rows, total)
	}
}

func TestLongCallsAreRecordedWhileTheyRun(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	c := l.begin(nil, "exec.run", api.ExecParams{SessionID: "s-1"})
	got := written(t, l, 1) // after startedAfter
	if got[0].Outcome != api.AuditStarted || got[0].SessionID != "s-1" {
		t.Errorf("%+v", got[0])
	}
	c.end(nil, nil)
	if got = written(t, l, 2); got[1].Outcome != api.AuditOK || got[1].DurationMS == 0 {
		t.Errorf("%+v", got[1])
	}
}

func TestConcurrentCallsKeepTheChain(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	s := l.Wrap(fake{}, nil)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for range 100 {
				_, _ = s.ExecRun(from(i), api.ExecParams{SessionID: "s-1"})
			}
		})
	}
	all.Wait()
	_ = l.Close()
	if r := verified(t, l); !r.OK || r.Records != 1600 || r.LastSeq != 1600 {
		t.Errorf("%+v", r)
	}
}

// fill makes a log with n records and closes it.
func fill(t testing.TB, dir string, n int) {
	t.Helper()
	l := open(t, dir, nil)
	s := l.Wrap(fake{}, nil)
	for i := range n {
		_, _ = s.ExecRun(from(i), api.ExecParams{SessionID: "s-1"})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyFindsEveryChange(t *testing.T) {
	for name, change := range map[string]func(lines [][]byte) ([][]byte, int){
		"a changed byte": func(l [][]byte) ([][]byte, int) {
			l[4] = bytes.Replace(l[4], []byte(`"ok"`), []byte(`"OK"`), 1)
			return l, 5
		},
		"a removed line":   func(l [][]byte) ([][]byte, int) { return append(l[:3:3], l[4:]...), 4 },
		"swapped lines":    func(l [][]byte) ([][]byte, int) { l[2], l[3] = l[3], l[2]; return l, 3 },
		"a repeated line":  func(l [][]byte) ([][]byte, int) { return append(l[:5:5], l[4:]...), 6 },
		"no JSON":          func(l [][]byte) ([][]byte, int) { l[6] = []byte("hello\n"); return l, 7 },
		"an empty line":    func(l [][]byte) ([][]byte, int) { l[1] = []byte("\n"); return l, 2 },
		"a new beginning":  func(l [][]byte) ([][]byte, int) { return l[1:], 1 },
		"forged hash":      func(l [][]byte) ([][]byte, int) { l[4] = forged(t, l[4]); return l, 6 },
		"a very long line": func(l [][]byte) ([][]byte, int) { l[4] = append(bytes.Repeat([]byte("x"), 2<<20), '\n'); return l, 5 },
	} {
		dir := t.TempDir()
		fill(t, dir, 10)
		path := filepath.Join(dir, nameOf(1))
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var lines [][]byte
		for line := range bytes.Lines(text) {
			lines = append(lines, bytes.Clone(line))
		}
		lines, want := change(lines)
		if err := os.WriteFile(path, bytes.Join(lines, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Verify(dir)
		if err != nil || r.OK || r.Broken == nil || r.Broken.Line != want || r.Broken.File != path {
			t.Errorf("%s: %+v, broken %+v, %v; want line %d", name, r, r.Broken, err, want)
		}
	}
}

// forged changes a line and gives it the hash that fits.
func forged(t *testing.T, line []byte) []byte {
	var r api.AuditRecord
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatal(err)
	}
	r.Outcome, r.Hash = "forged", ""
	body, _ := json.Marshal(r)
	return []byte(string(body[:len(body)-1]) + hashField + digest(body) + hashEnd + "\n")
}

func TestVerifyFindsALostEndWhileTheDaemonRuns(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	s := l.Wrap(fake{}, nil)
	for range 3 {
		_, _ = s.ExecRun(from(1), api.ExecParams{})
	}
	got := written(t, l, 3)
	path := filepath.Join(l.cfg.Dir, nameOf(1))
	text, _ := os.ReadFile(path)
	cut := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	if err := os.Truncate(path, int64(cut)); err != nil {
		t.Fatal(err)
	}
	if r := verified(t, l); r.OK || r.LastHash != got[1].Hash {
		t.Errorf("%+v", r)
	}
}

func TestTornLineIsRepaired(t *testing.T) {
	for _, torn := range []string{`{"seq":11,"at":"20`, "\x00\x00\x00\x00", `{"seq":11}`} {
		dir := t.TempDir()
		fill(t, dir, 10)
		f, err := os.OpenFile(filepath.Join(dir, nameOf(1)), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.WriteString(torn)
		f.Close()
		l := open(t, dir, nil)
		_, _ = l.Wrap(fake{}, nil).ExecRun(from(1), api.ExecParams{})
		got := written(t, l, 12)
		if !strings.Contains(got[10].Note, fmt.Sprintf("%d bytes", len(torn))) || got[11].Method != "exec.run" {
			t.Errorf("%+v", got[10:])
		}
		if r := verified(t, l); !r.OK || r.Records != 12 {
			t.Errorf("%q: %+v %+v", torn, r, r.Broken)
		}
	}
	// A file that was made and has no record yet.
	dir := t.TempDir()
	fill(t, dir, 10)
	if err := os.WriteFile(filepath.Join(dir, nameOf(11)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fill(t, dir, 10)
	if r, err := Verify(dir); err != nil || !r.OK || r.Records != 20 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRotationKeepsTheChain(t *testing.T) {
	dir := t.TempDir()
	for range 3 { // across restarts
		l := open(t, dir, func(c *Config) { c.MaxBytes = 1 }) // minFile each
		s := l.Wrap(fake{}, nil)
		for i := range 1000 {
			_, _ = s.ExecRun(from(i), api.ExecParams{SessionID: strings.Repeat("s", maxName)})
			if i%100 == 0 {
				written(t, l, l.Last())
			}
		}
		_ = l.Close()
	}
	paths, err := list(dir)
	if err != nil || len(paths) != numFiles {
		t.Fatalf("%v, %v", paths, err)
	}
	r, err := Verify(dir)
	if err != nil || !r.OK || r.FirstSeq == 1 || r.LastSeq != 3000 || r.Records != 3000-r.FirstSeq+1 {
		t.Errorf("%+v %+v, %v", r, r.Broken, err)
	}
	// A file in the middle is missing.
	if err := os.Remove(paths[3]); err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(dir); err != nil || r.OK || r.Broken.File != paths[4] || r.Broken.Line != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestFullDisk(t *testing.T) {
	for _, require := range []bool{false, true} {
		l := open(t, t.TempDir(), func(c *Config) { c.Require = require })
		s := l.Wrap(fake{}, nil)
		if _, err := s.ExecRun(from(1), api.ExecParams{}); err != nil {
			t.Fatal(err)
		}
		written(t, l, 1)
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip(err)
		}
		l.files.mu.Lock()
		good := l.files.file
		l.files.file = full
		l.files.mu.Unlock()
		if _, err := s.ExecRun(from(2), api.ExecParams{}); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "the fault", func() bool {
			r, err := l.List(t.Context(), api.AuditListParams{})
			return err == nil && r.Fault != ""
		})
		_, err = s.ExecRun(from(3), api.ExecParams{})
		if refused := errors.Is(err, api.ErrResourcePressure); refused != require {
			t.Errorf("require %v: %v", require, err)
		}
		l.files.mu.Lock()
		l.files.file, l.files.torn = good, false
		l.files.mu.Unlock()
		want := int64(3)
		if require {
			want = 2
		}
		written(t, l, want)
		testkit.Eventually(t, "calls to be allowed", func() bool { return l.Ready() == nil })
		if r := verified(t, l); !r.OK || r.Records != want {
			t.Errorf("require %v: %+v", require, r)
		}
	}
}

func TestPartOfALineIsRemovedWhenTheDiskIsFull(t *testing.T) {
	l := open(t, t.TempDir(), nil)
	s := l.Wrap(fake{}, nil)
	_, _ = s.ExecRun(from(1), api.ExecParams{})
	written(t, l, 1)
	l.files.mu.Lock() // as if a write had stopped within a line, and could not be undone
	_, err := l.files.file.WriteString(`{"seq":2,"at`)
	l.files.torn = true
	l.files.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = s.ExecRun(from(1), api.ExecParams{})
	written(t, l, 2)
	if r := verified(t, l); !r.OK || r.Records != 2 {
		t.Errorf("%+v %+v", r, r.Broken)
	}
}

func TestListFiltersAndPages(t *testing.T) {
	l := open(t, t.TempDir(), func(c *Config) { c.MaxBytes = 1 })
	s := l.Wrap(fake{}, nil)
	begin := time.Now()
	for i := range 600 {
		_, _ = s.ExecRun(from(i%3), api.ExecParams{})
		if i%50 == 0 {
			written(t, l, l.Last())
		}
	}
	l.Record(&api.Caller{Transport: "http", Address: "192.0.2.1", Token: "abcdef012345"}, "session.destroy", []byte(`{"session_id":"s-2"}`), "", api.Errorf(api.CodeForbidden, "no"))
	l.Record(&api.Caller{Transport: "http", LoginID: "w-1"}, "web.login", nil, "w-1", nil)
	written(t, l, 602)
	later := time.Now().Add(time.Hour)
	for _, c := range []struct {
		filter api.AuditFilter
		want   int
	}{
		{api.AuditFilter{}, 602}, {api.AuditFilter{Method: "exec"}, 600}, {api.AuditFilter{Method: "exec.run", Caller: "2"}, 200}, {api.AuditFilter{Method: "exe"}, 0},
		{api.AuditFilter{Caller: "abcdef"}, 1}, {api.AuditFilter{Caller: "192.0.2.1"}, 1}, {api.AuditFilter{Caller: "w-1"}, 1}, {api.AuditFilter{Caller: "http"}, 2},
		{api.AuditFilter{Outcome: "error"}, 1}, {api.AuditFilter{Outcome: "FORBIDDEN", SessionID: "s-2"}, 1}, {api.AuditFilter{Outcome: "ok"}, 601},
		{api.AuditFilter{Since: &begin}, 602}, {api.AuditFilter{Since: &later}, 0}, {api.AuditFilter{SessionID: "s-1"}, 600}, {api.AuditFilter{DialogueID: "d"}, 0},
	} {
		n, before := 0, int64(0)
		for pages := 0; ; pages++ {
			r, err := l.List(t.Context(), api.AuditListParams{AuditFilter: c.filter, BeforeSeq: before, Limit: 97})
			if err != nil || r.Records == nil || pages > 10 {
				t.Fatalf("%+v: %v, page %d", c.filter, err, pages)
			}
			for i := range r.Records {
				if i > 0 && r.Records[i].Seq <= r.Records[i-1].Seq || before > 0 && r.Records[i].Seq >= before {
					t.Fatalf("%+v: out of order", c.filter)
				}
			}
			n += len(r.Records)
			if before = r.NextBeforeSeq; before == 0 {
				break
			}
		}
		if n != c.want {
			t.Errorf("%+v: %d records, want %d", c.filter, n, c.want)
		}
	}
}

func TestSubscribersGetEveryRecordOnce(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 2*maxRecent)
	l := open(t, dir, nil)
	s := l.Wrap(fake{}, nil)
	sub, err := s.AuditSubscribe(t.Context(), api.AuditSubscribeParams{AfterSeq: new(int64)})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	filtered, err := s.AuditSubscribe(t.Context(), api.AuditSubscribeParams{AuditFilter: api.AuditFilter{Caller: "5000"}})
	if err != nil {
		t.Fatal(err)
	}
	defer filtered.Close()
	go func() {
		for i := range 100 {
			_, _ = s.ExecRun(from(4950+i+1), api.ExecParams{})
		}
	}()
	for want := int64(1); want <= 2*maxRecent+100; want++ {
		ev, err := sub.Recv()
		if err != nil || ev.Seq != want || ev.Audit == nil || ev.Audit.Seq != want {
			t.Fatalf("%d: %+v, %v", want, ev, err)
		}
	}
	if ev, err := filtered.Recv(); err != nil || ev.Audit.Caller.PID != 5000 {
		t.Errorf("%+v, %v", ev, err)
	}
	if _, err := s.AuditSubscribe(t.Context(), api.AuditSubscribeParams{AfterSeq: new(int64(1 << 40))}); !errors.Is(err, api.ErrInvalidParams) {
		t.Errorf("beyond the end: %v", err)
	}
	sub.Close()
	if _, err := sub.Recv(); err == nil {
		t.Error("a closed subscription goes on")
	}
}

func TestMissedRecordsAreReported(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 10)
	if err := os.Rename(filepath.Join(dir, nameOf(1)), filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(filepath.Join(dir, "away"))
	lines := bytes.SplitAfter(text, []byte("\n"))
	if err := os.WriteFile(filepath.Join(dir, nameOf(6)), bytes.Join(lines[5:], nil), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, dir, nil)
	sub, err := l.Wrap(fake{}, nil).AuditSubscribe(t.Context(), api.AuditSubscribeParams{AfterSeq: new(int64)})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if ev, err := sub.Recv(); err != nil || ev.Type != api.EventMissed || *ev.From != 1 || *ev.To != 6 {
		t.Errorf("%+v, %v", ev, err)
	}
	if ev, err := sub.Recv(); err != nil || ev.Seq != 6 {
		t.Errorf("%+v, %v", ev, err)
	}
}

// BenchmarkCall compares a call with the same call recorded.
func BenchmarkCall(b *testing.B) {
	ctx := from(1)
	p := api.ExecParams{SessionID: "s-1", Command: "true"}
	b.Run("plain", func(b *testing.B) {
		s := fake{}
		for b.Loop() {
			_, _ = s.ExecRun(ctx, p)
		}
	})
	b.Run("recorded", func(b *testing.B) {
		l := open(b, b.TempDir(), func(c *Config) { c.MaxBytes = 64 << 20 })
		s := l.Wrap(fake{}, nil)
		for b.Loop() {
			_, _ = s.ExecRun(ctx, p)
		}
	})
}
