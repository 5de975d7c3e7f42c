package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServeHTTPBesideADaemon: the error says how the daemon that runs serves HTTP, and that works.
func TestServeHTTPBesideADaemon(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	if o := s.run(t, "run", "-s", "work", "v=kept"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	o := s.run(t, "serve", "--http", "127.0.0.1:0")
	if o.status != 125 || !strings.Contains(o.stderr, `put http = "127.0.0.1:0" into the configuration file, ~/.config/trl/config.toml, and run `+"`trl upgrade`") {
		t.Fatalf("%+v", o)
	}
	file := filepath.Join(s.home(), ".config", "trl", "config.toml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(`http = "127.0.0.1:0"`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := s.run(t, "upgrade"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	if o := s.run(t, "call", "system.info"); !strings.Contains(o.stdout, "http://127.0.0.1:") {
		t.Errorf("%+v", o)
	}
	if o := s.run(t, "run", "-s", "work", "echo $v"); o.stdout != "kept\n" {
		t.Errorf("%+v", o)
	}
}
