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

// examples runs the commands of the documents about the place, and the example for it, as a person does.
func (p *place) examples(t *testing.T) {
	dir := t.TempDir()
	binary := testkit.Must(trltest.Static())(t)
	if err := os.Symlink(binary, filepath.Join(dir, "trl")); err != nil {
		t.Fatal(err)
	}
	replacer := strings.NewReplacer(p.replaced...)
	path, socket := "PATH="+dir+":"+os.Getenv("PATH"), "TRL_SOCKET_PATH="+p.daemon.Socket
	state := "TRL_STATE_DIR=" + p.daemon.StateDir
	reader := trltest.Reader{Env: []string{"HOME=" + dir, path, socket, state}, Has: []string{p.has}}
	reader.Section(t, "../../docs/runtimes.md", "## "+p.section, replacer)
	switch p.has {
	case "Docker":
		reader.Section(t, "../../docs/guides/ci.md", "## In a container", replacer)
		fallthrough
	case "another machine":
		reader.Section(t, "../../README.md", "### Work elsewhere", replacer)
	}
	if p.example != "" {
		t.Run(p.example, func(t *testing.T) {
			trltest.Example(t, p.example, replacer, path, socket, state, "TRL_CONFIG="+os.DevNull)
		})
	}
}
