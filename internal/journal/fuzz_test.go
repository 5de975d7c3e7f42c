package journal_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/trl-dev/trl/internal/journal"
)

func open(t *testing.T, path string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// FuzzJournal reads anything back: numbers rise, and what was read is what a second
// reading of the same file gives.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"begin":{"seq":4,"sessions":{"s-1":{"state":"idle","newest":2,"open":{"x-1-2":"running"}}}}}` + "\n" +
		`{"seq":5,"type":"exec.exited","at":"2026-01-02T03:04:05Z","session_id":"s-1","exec_id":"x-1-2","exit_code":1}` + "\n"))
	f.Add([]byte(`{"seq":5,"type":"session.created","at":"2026-01-02T03:04:05Z","session_id":"s-1","name":"n"}` + "\n{\"seq\":6"))
	f.Add([]byte("\n\n{}\nnull\n[]\n{\"begin\":null}\n{\"begin\":{\"sessions\":{\"\":null,\"a\":null}}}\n"))
	f.Add([]byte(`{"seq":9223372036854775807,"type":"exec.queued","at":"2026-01-02T03:04:05Z","session_id":"s","exec_id":"x-9223372036854775807"}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "events")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		j := open(t, path)
		events, first := j.Read(0, 1<<20)
		for i, ev := range events {
			if ev.Seq != first+int64(i) {
				t.Fatalf("event %d has number %d, first is %d", i, ev.Seq, first)
			}
		}
		last := j.Last()
		j.Close()
		again := open(t, path)
		defer again.Close()
		if second, _ := again.Read(0, 1<<20); again.Last() != last || len(second) != len(events) {
			t.Fatalf("read again: %d events up to %d, before %d up to %d", len(second), again.Last(), len(events), last)
		}
	})
}
