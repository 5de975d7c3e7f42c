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

// examples runs the commands of docs/runtimes.md about the place, as a person does.
func (p *place) examples(t *testing.T) {
	dir := t.TempDir()
	binary := testkit.Must(trltest.Static())(t)
	if err := os.Symlink(binary, filepath.Join(dir, "trl")); err != nil {
		t.Fatal(err)
	}
	trltest.Section(t, "../../docs/runtimes.md", p.section, strings.NewReplacer(p.replaced...),
		"HOME="+dir, "PATH="+dir+":"+os.Getenv("PATH"), "TRL_SOCKET_PATH="+p.daemon.Socket)
}
