// Package http_test speaks HTTP with the real daemon, and types what docs/http.md says.
package http_test

import (
	"os"
	"os/exec"
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
