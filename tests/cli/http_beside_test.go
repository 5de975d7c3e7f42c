package cli_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

// switchHTTP runs `trl http args... --json`.
func (s *sandbox) switchHTTP(t *testing.T, args ...string) (r api.SystemHTTPResult) {
	t.Helper()
	o := s.run(t, append([]string{"http", "--json"}, args...)...)
	if o.status != 0 {
		t.Fatalf("%v: %+v", args, o)
	}
	if err := json.Unmarshal([]byte(o.stdout), &r); err != nil {
		t.Fatalf("%v: %+v: %v", args, o, err)
	}
	return r
}

// get returns the status of GET /readyz, 0 if no daemon listens.
func get(url string) int {
	resp, err := http.Get(url + "/readyz")
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestHTTPOnAndOff: the choice of a person stays over an upgrade, and the configuration counts
// again when a daemon starts anew.
func TestHTTPOnAndOff(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	if o := s.run(t, "http"); o.stdout != "off\n" || o.status != 0 || !strings.Contains(o.stderr, "no daemon is running") {
		t.Errorf("%+v", o)
	}
	if o := s.run(t, "run", "-s", "work", "v=kept"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	if o := s.run(t, "http", "status"); o.stdout != "off\n" || o.stderr != "" {
		t.Errorf("%+v", o)
	}
	first := s.switchHTTP(t, "on", "0")
	if get(first.URL) != 200 || first.TokenFile != filepath.Join(s.state(), "token") {
		t.Fatalf("%+v", first)
	}
	if o := s.run(t, "http"); o.stdout != "url\t"+first.URL+"\ntoken\t"+first.TokenFile+"\n" {
		t.Errorf("%+v", o)
	}
	if o := s.run(t, "--socket", first.URL, "run", "-s", "work", "echo $v"); o.stdout != "kept\n" {
		t.Errorf("%+v", o)
	}
	for range 2 {
		if o := s.run(t, "upgrade"); o.status != 0 {
			t.Fatalf("%+v", o)
		}
		if now := s.switchHTTP(t); now != first || get(first.URL) != 200 {
			t.Errorf("after an upgrade: %+v, before: %+v", now, first)
		}
	}
	if now := s.switchHTTP(t, "off"); now != (api.SystemHTTPResult{}) || get(first.URL) != 0 {
		t.Errorf("%+v", now)
	}
	if o := s.run(t, "run", "-s", "work", "echo $v"); o.stdout != "kept\n" {
		t.Errorf("%+v", o)
	}
	// A new daemon follows the configuration.
	s.switchHTTP(t, "on", "127.0.0.1:0")
	s.run(t, "stop")
	if o := s.run(t, "run", "true"); o.status != 0 {
		t.Fatalf("%+v", o)
	}
	if now := s.switchHTTP(t); now.On {
		t.Errorf("after a restart: %+v", now)
	}
	for _, args := range [][]string{{"maybe"}, {"off", "80"}, {"status", "80"}, {"on", ""}} {
		if o := s.run(t, append([]string{"http"}, args...)...); o.status != 2 {
			t.Errorf("%q: %+v", args, o)
		}
	}
	if o := s.run(t, "http", "on", "0.0.0.0:0"); o.status == 0 || !strings.Contains(o.stderr, "give tls_cert and tls_key") {
		t.Errorf("%+v", o)
	}
}

// TestHTTPOffStaysOff: HTTP that the configuration asks for can be turned off, which stays over an
// upgrade, and on again. An upgrade follows a changed address.
func TestHTTPOffStaysOff(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	file := filepath.Join(s.home(), ".config/trl/config.toml")
	configure := func(text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	upgrade := func() {
		t.Helper()
		if o := s.run(t, "upgrade"); o.status != 0 {
			t.Fatalf("%+v", o)
		}
	}
	configure("http = \"127.0.0.1:0\"\n")
	first := s.switchHTTP(t, "on")
	if !first.On || first.Configured != "127.0.0.1:0" {
		t.Fatalf("%+v", first)
	}
	if now := s.switchHTTP(t, "off"); now.On || now.Configured == "" {
		t.Errorf("%+v", now)
	}
	upgrade()
	if now := s.switchHTTP(t); now.On || get(first.URL) != 0 {
		t.Errorf("after an upgrade: %+v", now)
	}
	second := s.switchHTTP(t, "on")
	upgrade()
	if now := s.switchHTTP(t); now != second || get(second.URL) != 200 {
		t.Errorf("%+v, before: %+v", now, second)
	}
	configure("http = \"[::1]:0\"\n")
	upgrade()
	if now := s.switchHTTP(t); !strings.HasPrefix(now.URL, "http://[::1]:") || get(second.URL) != 0 || get(now.URL) != 200 {
		t.Errorf("after a change of the address: %+v", now)
	}
	configure("")
	upgrade()
	if now := s.switchHTTP(t); now.On {
		t.Errorf("after the setting was removed: %+v", now)
	}
}

// TestServeBesideADaemon: the error says how the daemon that runs serves HTTP and gRPC, and that works
// with the file that this daemon reads, wherever it is, and not with the one that the caller would read.
func TestServeBesideADaemon(t *testing.T) {
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
			if o.status != 125 || !strings.Contains(o.stderr, "`trl http on 127.0.0.1:0` makes the running daemon serve it; http = \"127.0.0.1:0\" in its configuration file, "+file+", makes") {
				t.Fatalf("%+v", o)
			}
			o = s.run(t, "serve", "--grpc", "127.0.0.1:0")
			if o.status != 125 || !strings.Contains(o.stderr, `put grpc = "127.0.0.1:0" into its configuration file, `+file+", and run `trl upgrade`") {
				t.Fatalf("%+v", o)
			}
			if err := os.WriteFile(file, []byte("http = \"127.0.0.1:0\"\ngrpc = \"127.0.0.1:0\"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if o := s.run(t, "upgrade"); o.status != 0 {
				t.Fatalf("%+v", o)
			}
			if o := s.run(t, "call", "system.info"); !strings.Contains(o.stdout, "http://127.0.0.1:") || !strings.Contains(o.stdout, "grpc://127.0.0.1:") {
				t.Errorf("%+v", o)
			}
			if o := s.run(t, "run", "-s", "work", "echo $v"); o.stdout != "kept\n" {
				t.Errorf("%+v", o)
			}
		})
	}
}
