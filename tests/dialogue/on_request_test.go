package dialogue_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/hook"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestOnRequest: the daemon reports a request to the configured command and URL when it waits and no
// client looks, once for each request, and again after a restart.
func TestOnRequest(t *testing.T) {
	t.Parallel()
	dir := testkit.Dir(t)
	key := filepath.Join(dir, "key")
	secret := testkit.Must(hook.LoadKey(key))(t)
	got := make(chan api.RequestReport, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var report api.RequestReport
		if err := json.Unmarshal(body, &report); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if want := hook.Sign(secret, report.ID, r.Header.Get("Webhook-Timestamp"), body); r.Header.Get("Webhook-Signature") != want {
			t.Errorf("signature %s, want %s", r.Header.Get("Webhook-Signature"), want)
		}
		got <- report
	}))
	t.Cleanup(receiver.Close)
	command := filepath.Join(dir, "reports")
	w := start(t, trltest.Env("TRL_ON_REQUEST_URL="+receiver.URL, "TRL_ON_REQUEST_KEY_FILE="+key, "TRL_ON_REQUEST_AFTER_S=0.1",
		"TRL_ON_REQUEST_COMMAND=cat >>"+command))
	want := func(d api.DialogueInfo) {
		t.Helper()
		select {
		case r := <-got:
			if r.DialogueID != d.DialogueID || r.Name != d.Name || r.Agent != "claude" || r.Kind != "permission" || r.Tool != "Bash" || r.Subject != "rm -r build" || r.OpenedAt.IsZero() || r.ID != d.DialogueID+"/"+r.RequestID {
				t.Errorf("report %+v, want one of %s", r, d.DialogueID)
			}
		case <-w.ctx.Done():
			t.Fatal("no report")
		}
	}
	waits := func(d api.DialogueInfo) {
		t.Helper()
		w.send(d.DialogueID, "ask Bash rm -r build; say done")
		testkit.Eventually(t, "it waits", func() bool { return w.info(d.DialogueID).Requests == 1 })
	}
	p := fake()
	p.Name = "seen"
	seen := w.create(p)
	f := w.follow(seen.DialogueID, 0)
	waits(seen)
	p.Name = "unseen"
	unseen := w.create(p)
	waits(unseen)
	want(unseen) // and nothing of the other one, which was first
	f.close()
	want(seen)
	testkit.Eventually(t, "the command has run", func() bool {
		text, _ := os.ReadFile(command)
		return bytes.Count(text, []byte("\n")) == 2
	})

	w.restart(nil)
	first, second := <-got, <-got
	if first.DialogueID == second.DialogueID {
		t.Errorf("after the restart: %+v and %+v", first, second)
	}
}
