// Package http_test speaks HTTP with the real daemon, and types what docs/http.md says.
package http_test

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/tests/trltest"
)

const patience = 2 * time.Minute

// TestDocs types every command of the page.
func TestDocs(t *testing.T) {
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	d := trltest.Start(t, trltest.Env("PATH="+trltest.AgentPath(t)), trltest.Args("--http", "127.0.0.1:0"))
	url, token := d.HTTP(t)
	trltest.Page(t, "../../docs/http.md", token, strings.NewReplacer("http://127.0.0.1:7330", url,
		"--http 127.0.0.1:7330", "--http 127.0.0.1:0", "trl http on ", "trl http on 127.0.0.1:0 "))
}

// TestWebSocketOfThePage runs the JavaScript of the page with Node, with a plain token and with one in base64url.
func TestWebSocketOfThePage(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skipf("SKIPPED: %s: the JavaScript of docs/http.md does not run", err)
	}
	d := trltest.Start(t, trltest.Args("--http", "127.0.0.1:0"))
	url, token := d.HTTP(t)
	shown := trltest.OneSnippet(t, "docs/http.md", "## WebSocket", "js")
	replaced := strings.Replace(shown, "wss://box.example:7330", strings.Replace(url, "http", "ws", 1), 1)
	if replaced == shown {
		t.Errorf("the page connects to another address: %s", shown)
	}
	program := filepath.Join(t.TempDir(), "page.mjs")
	text := `if (!globalThis.WebSocket) { console.log("too old"); process.exit(0); }
const token = process.argv[2];
const ws =
` + replaced + `;
ws.onopen = () => ws.send('{"id":1,"method":"system.ping"}');
ws.onmessage = (e) => { console.log(ws.protocol, e.data); ws.close(); };
ws.onerror = (e) => { console.log("error", e.message); process.exitCode = 1; };
`
	if err := os.WriteFile(program, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{token, base64.RawURLEncoding.EncodeToString([]byte(token))} {
		out, err := exec.CommandContext(t.Context(), node, "--experimental-websocket", program, token).CombinedOutput()
		switch got := string(out); {
		case strings.Contains(got, "too old"), strings.Contains(got, "bad option"):
			t.Skipf("SKIPPED: this Node has no WebSocket: the JavaScript of docs/http.md does not run")
		case err != nil || !strings.Contains(got, `trl.v1 {"id":1,"ok":true,`):
			t.Errorf("%v\n%s", err, got)
		}
	}
}
