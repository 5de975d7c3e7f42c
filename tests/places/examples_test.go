//go:build linux

package places

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// examples runs the commands of docs/runtimes.md about the place, and the example for it, as a person does.
func (p *place) examples(t *testing.T) {
	dir := t.TempDir()
	binary := testkit.Must(trltest.Static())(t)
	if err := os.Symlink(binary, filepath.Join(dir, "trl")); err != nil {
		t.Fatal(err)
	}
	replacer := strings.NewReplacer(p.replaced...)
	path, socket := "PATH="+dir+":"+os.Getenv("PATH"), "TRL_SOCKET_PATH="+p.daemon.Socket
	trltest.Section(t, "../../docs/runtimes.md", p.section, replacer, "HOME="+dir, path, socket)
	if p.example != "" {
		t.Run(p.example, func(t *testing.T) {
			trltest.Example(t, p.example, replacer, path, socket, "TRL_CONFIG="+os.DevNull)
		})
	}
}
