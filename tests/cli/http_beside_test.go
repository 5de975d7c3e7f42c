package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServeHTTPBesideADaemon: the error says how the daemon that runs serves HTTP, and that works
// with the file that this daemon reads, wherever it is and whatever the caller would read.
func TestServeHTTPBesideADaemon(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]struct {
		env  func(s *sandbox) []string // of the daemon
		file string                    // below the sandbox
	}{
		"default":         {func(*sandbox) []string { return nil }, "home/.config/trl/config.toml"},
		"XDG_CONFIG_HOME": {func(s *sandbox) []string { return []string{"XDG_CONFIG_HOME=" + s.dir + "/xdg"} }, "xdg/trl/config.toml"},
		"TRL_CONFIG":      {func(s *sandbox) []string { return []string{"TRL_CONFIG=" + s.dir + "/mine.toml"} }, "mine.toml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			caller := s.env
			file := filepath.Join(s.dir, place.file)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s.env = append(caller[:len(caller):len(caller)], place.env(s)...)
			if o := s.run(t, "run", "-s", "work", "v=kept"); o.status != 0 {
				t.Fatalf("%+v", o)
			}
			s.env = caller
			o := s.run(t, "serve", "--http", "127.0.0.1:0")
			if o.status != 125 || !strings.Contains(o.stderr, `put http = "127.0.0.1:0" into its configuration file, `+file+", and run `trl upgrade`") {
				t.Fatalf("%+v", o)
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
		})
	}
}
