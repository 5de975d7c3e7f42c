package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/config"
)

// load makes a configuration from the text of a file, variables and arguments,
// with a home directory of its own.
func load(t *testing.T, file string, env []string, args ...string) (config.Config, error) {
	t.Helper()
	home := t.TempDir()
	if file != "" {
		path := filepath.Join(home, ".config", "trl", "config.toml")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.Register(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return config.Load(flags, append([]string{"HOME=" + home}, env...))
}

func TestPrecedence(t *testing.T) {
	for _, c := range []struct {
		name   string
		file   string
		env    []string
		args   []string
		want   int64
		origin string
	}{
		{"default", "", nil, nil, 64, "default"},
		{"file", "max_sessions = 7", nil, nil, 7, "file "},
		{"env over file", "max_sessions = 7", []string{"TRL_MAX_SESSIONS=8"}, nil, 8, "env TRL_MAX_SESSIONS"},
		{"flag over all", "max_sessions = 7", []string{"TRL_MAX_SESSIONS=8"}, []string{"--max-sessions=9"}, 9, "flag --max-sessions"},
		{"an empty variable is none", "max_sessions = 7", []string{"TRL_MAX_SESSIONS="}, nil, 7, "file "},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := load(t, c.file, c.env, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			if cfg.MaxSessions != c.want || !strings.HasPrefix(cfg.Origin("max_sessions"), c.origin) {
				t.Errorf("max_sessions = %d from %q, want %d from %q", cfg.MaxSessions, cfg.Origin("max_sessions"), c.want, c.origin)
			}
		})
	}
}

func TestMistakesNameKeyValueAndOrigin(t *testing.T) {
	for _, c := range []struct {
		file string
		env  string
		arg  string
		want string
	}{
		{file: "max_sesions = 7", want: "max_sesions: unknown key; did you mean max_sessions? (file "},
		{file: "frobnicate = 7", want: "frobnicate: unknown key (file "},
		{file: "[limits]\nmax_sessions = 7", want: "limits: unknown key (file "},
		{file: "max_sessions = \"many\"", want: "max_sessions: many: must be a whole number (file "},
		{file: "max_sessions = 0", want: "max_sessions: 0: must be from 1 to 100000 (file "},
		{file: "keep_sessions = 1", want: "keep_sessions: 1: must be true or false (file "},
		{file: "kill_grace_s = nan", want: "kill_grace_s: NaN: must be from 0 to 3600 (file "},
		{file: "socket = \"run/trl.sock\"", want: "socket: \"run/trl.sock\": must be an absolute path (file "},
		{file: "max_sessions = ", want: "config.toml: line 1: "},
		{env: "TRL_IDLE_TIMEOUT_S=soon", want: "idle_timeout_s: \"soon\": must be a number of seconds, or a duration such as 1h30m (env TRL_IDLE_TIMEOUT_S)"},
		{env: "TRL_IDLE_TIMEOUT_S=-1", want: "idle_timeout_s: -1: must be from 0 to 31622400 (env TRL_IDLE_TIMEOUT_S)"},
		{env: "TRL_RUNTIME_DIR=/tmp/a b", want: "runtime_dir: \"/tmp/a b\": may contain only A-Z a-z 0-9 / _ . - (env TRL_RUNTIME_DIR)"},
		{env: "TRL_SOCKET_PATH=/" + strings.Repeat("x", 200), want: "too long for the address of a unix socket (env TRL_SOCKET_PATH)"},
		{env: "TRL_RUNTIME_DIR=/" + strings.Repeat("x", 95), want: "too long for the address of a unix socket (env TRL_RUNTIME_DIR)"},
		{arg: "--log-level=loud", want: "log_level: \"loud\": must be debug, info, warn or error (flag --log-level)"},
		{arg: "--output-bytes=lots", want: "output_bytes: \"lots\": must be a number of bytes, or a size such as \"16MiB\" (flag --output-bytes)"},
		{arg: "--output-bytes=99999999TiB", want: "output_bytes: \"99999999TiB\": must be"},
		{arg: "--default-shell=", want: "default_shell: must not be empty (flag --default-shell)"},
		{arg: "--trace-endpoint=127.0.0.1:4318", want: "trace_endpoint: must be a URL such as http://127.0.0.1:4318"},
		{arg: "--trace-endpoint=http://user:secret@127.0.0.1:4318", want: "without a password"},
		{arg: "--http=8080", want: "http: \"8080\": must be a host and a port, such as 127.0.0.1:7330"},
		{arg: "--http=:8080", want: "http: \":8080\": must be a host and a port"},
		{arg: "--http=localhost:http", want: "http: \"localhost:http\": must be a host and a port"},
		{arg: "--http=127.0.0.1:65536", want: "http: \"127.0.0.1:65536\": must be a host and a port"},
		{arg: "--tls-cert=/c.pem", want: "tls_key: is required, because tls_cert is set (flag --tls-cert)"},
		{env: "TRL_TLS_KEY=/k.pem", want: "tls_cert: is required, because tls_key is set (env TRL_TLS_KEY)"},
		{file: "http_hosts = [\"a\", 5]", want: "http_hosts: [a 5]: must be a list of strings (file "},
		{file: "http_hosts = [\"a:80\"]", want: "http_hosts: \"a:80\": must be a name or an address, without a port (file "},
		{file: "http_origins = [\"app.example.com\"]", want: "http_origins: \"app.example.com\": must be an origin such as https://app.example.com, without a path (file "},
		{arg: "--http-origins=https://a.example/,*", want: "http_origins: \"https://a.example/\": must be an origin"},
		{arg: "--http-origins=*", want: "http_origins: \"*\": must be an origin"},
		{file: "on_request_url = \"ftp://a/b\"", want: "on_request_url: must be a URL such as https://example.com/hook"},
		{env: "TRL_ON_REQUEST_URL=https://me:word@a/b", want: "on_request_url: must be a URL such as https://example.com/hook, without a user and a fragment (env "},
		{file: "on_request_url = \"http://a.example/b\"", want: "on_request_url: http://a.example: others on the network could read the reports; use https (file "},
		{file: "[runtime.x]", want: "runtime: unknown key; did you mean runtimes? (file "},
		{file: "isolation = 3", want: "isolation: must be tables such as [isolation.build] (file "},
		{file: "[isolation]\nbuild = 3", want: "isolation.build: must be a table (file "},
		{file: "[isolation.workspace]", want: "isolation.workspace: workspace is built in; choose another name (file "},
		{file: "[isolation.\"a b\"]", want: "isolation.a b: the name must be 1 to 64 of A-Z a-z 0-9 . _ - (file "},
		{file: "[isolation.build]\nfiels = \"all\"", want: "isolation.build.fiels: unknown key; did you mean files? (file "},
		{file: "[isolation.build]\nfiles = 3", want: "isolation.build.files: must be a string (file "},
		{file: "[isolation.build]\nfiles = \"some\"", want: "isolation.build.files: \"some\" is not one of all, workspace, read-only (file "},
		{file: "[isolation.build]\nwritable = \"/tmp\"", want: "isolation.build.writable: must be a list of strings (file "},
		{file: "[isolation.build]\nwritable = [\"/tmp\"]", want: "isolation.build.writable: needs files workspace or read-only (file "},
		{file: "[isolation.build]\nallow = [\"a\"]", want: "isolation.build.allow: needs network allow (file "},
		{file: "runtimes = 3", want: "runtimes: must be tables such as [runtimes.build] (file "},
		{file: "[runtimes]\nbuild = 3", want: "runtimes.build: must be a table (file "},
		{file: "[runtimes.build]", want: "runtimes.build.kind: is required: host, docker, container, ssh, kubernetes, pod, trl (file "},
		{file: "[runtimes.build]\nkind = \"moon\"", want: "runtimes.build.kind: \"moon\" is not one of host, docker"},
		{file: "[runtimes.build]\nkind = \"docker\"\nimgae = \"a\"", want: "runtimes.build.imgae: unknown option \"imgae\"; did you mean image? (file "},
		{file: "[runtimes.build]\nkind = \"docker\"\nidentity = \"/k\"", want: "runtimes.build.identity: a place of kind docker does not know the option \"identity\" (file "},
		{file: "[runtimes.build]\nkind = \"docker\"\nimage = 3", want: "runtimes.build.image: must be a string (file "},
		{file: "[runtimes.build]\nkind = \"docker\"\nmounts = \"a:/b\"", want: "runtimes.build.mounts: must be a list of strings (file "},
		{file: "[runtimes.build]\nkind = \"docker\"\nmounts = [\"a\"]", want: "runtimes.build.mounts: \"a\": must be SOURCE:TARGET or SOURCE:TARGET:ro"},
		{file: "[runtimes.build]\nkind = \"docker\"\nlabels = {a = 1}", want: "runtimes.build.labels: must be a table of strings (file "},
		{file: "[runtimes.build]\nkind = \"docker\"\nread_only = \"yes\"", want: "runtimes.build.read_only: must be true or false (file "},
		{file: "[runtimes.build]\nkind = \"docker\"\nallow = [\"imag\"]", want: "runtimes.build.allow: unknown option \"imag\"; did you mean image? (file "},
		{file: "[runtimes.build]\nkind = \"docker\"\nallow = \"image\"", want: "runtimes.build.allow: must be a list of options (file "},
		{file: "[runtimes.docker]\nkind = \"docker\"", want: "runtimes.docker: docker already is a kind of place; choose another name (file "},
		{file: "[runtimes.remote]\nkind = \"docker\"", want: "runtimes.remote: remote already is"},
		{file: "[runtimes.\"a:b\"]\nkind = \"docker\"", want: "runtimes.a:b: the name must be 1 to 64 of"},
		{file: "runtime_kinds = [\"host\", \"k8s\"]", want: "runtime_kinds: \"k8s\" is not one of host, docker, container, ssh, kubernetes, pod, trl (file "},
		{arg: "--default-runtime=mars", want: "default_runtime: there is no place \"mars\" (flag --default-runtime)"},
		{arg: "--config=/nonexistent/trl.toml", want: "config file: open /nonexistent/trl.toml: no such file"},
	} {
		t.Run(c.file+c.env+c.arg, func(t *testing.T) {
			var env, args []string
			if c.env != "" {
				env = []string{c.env}
			}
			if c.arg != "" {
				args = []string{c.arg}
			}
			_, err := load(t, c.file, env, args...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestWaysToWriteAValue(t *testing.T) {
	cfg, err := load(t, "idle_timeout_s = \"1h30m\"\nkill_grace_s = 2\nlifetime_s = 1.5\nmax_request_bytes = \"8MiB\"\nmax_stdin_bytes = 4096",
		[]string{"TRL_RETENTION_S=90s", "TRL_OUTPUT_BYTES=1 MB", "TRL_KEEP_SESSIONS=yes"}, "--session-output-bytes", "3k", "--state-dir", "here")
	if err != nil {
		t.Fatal(err)
	}
	here, _ := filepath.Abs("here")
	got := []any{cfg.IdleTimeoutS, cfg.KillGraceS, cfg.LifetimeS, cfg.MaxRequestBytes, cfg.MaxStdinBytes, cfg.RetentionS, cfg.OutputBytes, cfg.KeepSessions, cfg.SessionOutputBytes, cfg.StateDir}
	want := []any{5400.0, 2.0, 1.5, int64(8 << 20), int64(4096), 90.0, int64(1e6), true, int64(3072), here}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestLists(t *testing.T) {
	for _, c := range []struct {
		file, env, arg string
		want           []string
	}{
		{want: nil},
		{file: `http_hosts = ["a.example", "::1"]`, want: []string{"a.example", "::1"}},
		{file: `http_hosts = "a, b"`, want: []string{"a", "b"}},
		{file: `http_hosts = ["a"]`, env: "TRL_HTTP_HOSTS= b ,,c", want: []string{"b", "c"}},
		{env: "TRL_HTTP_HOSTS=b", arg: "--http-hosts=d", want: []string{"d"}},
		{file: `http_hosts = []`, want: nil},
	} {
		env, args := []string{c.env}, []string{c.arg}
		if c.arg == "" {
			args = nil
		}
		cfg, err := load(t, c.file, env, args...)
		if got := config.Words(cfg.HTTPHosts); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
}

func TestTokenPath(t *testing.T) {
	cfg, err := load(t, "", nil, "--state-dir", "/s")
	if path, own := cfg.TokenPath(); err != nil || path != "/s/token" || !own {
		t.Errorf("%s, %v, %v", path, own, err)
	}
	cfg, err = load(t, "", nil, "--token-file", "/t/tokens", "--http", "[::1]:0")
	if path, own := cfg.TokenPath(); err != nil || path != "/t/tokens" || own || cfg.HTTP != "[::1]:0" {
		t.Errorf("%s, %v, %v", path, own, err)
	}
}

func TestBoolFlagNeedsNoValue(t *testing.T) {
	cfg, err := load(t, "", nil, "--keep-sessions")
	if err != nil || !cfg.KeepSessions {
		t.Errorf("keep_sessions = %v, %v", cfg.KeepSessions, err)
	}
}

// TestPlaces: where the socket, the runtime and the state directory are is decided by the user id. No
// variable changes it unless the user has no home directory, or callers with different environments would find different daemons.
func TestPlaces(t *testing.T) {
	home := t.TempDir()
	base, err := config.Load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	account := base.StateDir // of the home directory in the user database, or below /tmp
	state := func(home string) string {
		if strings.HasPrefix(account, "/tmp/trl-") { // the user database has no home directory
			return home + "/.local/state/trl"
		}
		return account
	}
	for _, c := range []struct {
		name, state string
		env         []string
	}{
		{"nothing", account, nil},
		{"another home", state(home), []string{"HOME=" + home}},
		{"xdg", state(home), []string{"XDG_RUNTIME_DIR=" + t.TempDir(), "XDG_STATE_HOME=/var/x", "HOME=" + home, "TMPDIR=" + t.TempDir()}},
		{"relative ones do not count", account, []string{"XDG_RUNTIME_DIR=run", "HOME=home", "XDG_STATE_HOME=state"}},
		{"a home that does not exist", account, []string{"HOME=" + home + "/none"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := config.Load(nil, c.env)
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Socket != base.Socket || cfg.RuntimeDir != base.RuntimeDir || cfg.StateDir != c.state {
				t.Errorf("socket %s, runtime_dir %s, state_dir %s; want %s, %s, %s",
					cfg.Socket, cfg.RuntimeDir, cfg.StateDir, base.Socket, base.RuntimeDir, c.state)
			}
		})
	}
	t.Run("a socket path that is too long is reported", func(t *testing.T) {
		_, err := config.Load(nil, []string{"TRL_SOCKET_PATH=/" + strings.Repeat("x", 120)})
		if err == nil || !strings.Contains(err.Error(), "too long") || !strings.Contains(err.Error(), "(env TRL_SOCKET_PATH)") {
			t.Errorf("got %v", err)
		}
	})
}

// TestHomeOfSomebodyElse: sudo may leave HOME as it was. Root's daemon keeps nothing there.
func TestHomeOfSomebodyElse(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a directory of somebody else")
	}
	home := t.TempDir()
	if err := os.Chown(home, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(nil, []string{"HOME=" + home})
	if err != nil || strings.HasPrefix(cfg.StateDir, home) {
		t.Errorf("state_dir = %q, %v", cfg.StateDir, err)
	}
}

func TestNearlyRightVariableIsNoted(t *testing.T) {
	cfg, err := load(t, "", []string{"TRL_MAX_SESIONS=3", "TRL_SESSION_ID=s-0123456789", "TRL_TOKEN=x"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"environment: TRL_MAX_SESIONS: unknown; did you mean TRL_MAX_SESSIONS?"}
	if !reflect.DeepEqual(cfg.Notes(), want) {
		t.Errorf("notes = %q, want %q", cfg.Notes(), want)
	}
}

func TestEverySettingIsDescribed(t *testing.T) {
	cfg, err := load(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.Register(flags)
	seen := map[string]bool{}
	for _, e := range cfg.Entries() {
		if e.Doc == "" || !strings.HasPrefix(e.Env, "TRL_") || flags.Lookup(strings.TrimPrefix(e.Flag, "--")) == nil {
			t.Errorf("%s is not fully described: %+v", e.Key, e)
		}
		if e.Origin != config.OriginDefault || e.Value != e.Default {
			t.Errorf("%s = %v from %s, want the default %v", e.Key, e.Value, e.Origin, e.Default)
		}
		if seen[e.Key] || seen[e.Env] {
			t.Errorf("%s is there twice", e.Key)
		}
		seen[e.Key], seen[e.Env] = true, true
	}
	if n := len(cfg.Entries()); n != 78 {
		t.Errorf("%d settings", n)
	}
	if cfg.Limits()["max_sessions"] != 64 || cfg.Limits()["kill_grace_s"] != 5 {
		t.Errorf("limits = %v", cfg.Limits())
	}
}

func TestMakePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 {
		if err := config.MakePrivate(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := config.MakePrivate(dir); err == nil || !strings.Contains(err.Error(), "has mode 0750, must be 0700") {
		t.Errorf("got %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if err := config.MakePrivate(link); err == nil || !strings.Contains(err.Error(), "is not a directory") {
		t.Errorf("a symbolic link: got %v", err)
	}
}

// FuzzFile feeds any file to the decoder: it gives an error or a configuration
// in which every value is one that could have been typed as a flag.
func FuzzFile(f *testing.F) {
	f.Add("max_sessions = 7\nsocket = \"/tmp/x\"\n")
	f.Add("kill_grace_s = 1e400")
	f.Add("kill_grace_s = inf\nidle_timeout_s = \"1h\"")
	f.Add("output_bytes = \"9223372036854775807KiB\"")
	f.Add("http_origins = [\"https://a\", \" b\"]\nhttp = \"[::1]:0\"\ntls_cert = \"/a\"")
	f.Add("[a.b]\nc = [1, {d = 2}]")
	f.Add("runtime_dir = \"/\\u0000\"")
	f.Add("max_sessions = 1979-05-27T07:32:00Z")
	path := filepath.Join(f.TempDir(), "config.toml")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(nil, []string{"TRL_CONFIG=" + path})
		if err != nil {
			return
		}
		var args []string
		for _, e := range cfg.Entries() {
			if e.Origin != config.OriginDefault {
				args = append(args, fmt.Sprintf("%s=%v", e.Flag, e.Value))
			}
		}
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		config.Register(flags)
		if err := flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		again, err := config.Load(flags, nil)
		if err != nil {
			t.Fatalf("%q: accepted in a file, refused as flags %q: %v", text, args, err)
		}
		for i, e := range again.Entries() {
			if before := cfg.Entries()[i]; e.Value != before.Value {
				t.Errorf("%s: %v in the file, %v as a flag", e.Key, before.Value, e.Value)
			}
		}
	})
}

// TestRuntimes: the places of the file are read, and listed with their origin.
func TestRuntimes(t *testing.T) {
	cfg, err := load(t, `default_runtime = "build"
adhoc_places = false
runtime_kinds = ["docker", "kubernetes"]

[runtimes.build]
kind = "docker"
image = "golang:1"
mounts = ["/src:/src:ro"]
labels = {team = "a"}
read_only = false
allow = ["image", "user"]

[runtimes.cluster]
kind = "k8s"
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	no := false
	want := map[string]config.Runtime{
		"build": {Kind: api.PlaceDocker, Allow: []string{"image", "user"}, Options: api.PlaceOptions{
			Image: "golang:1", Mounts: []string{"/src:/src:ro"}, Labels: map[string]string{"team": "a"}, ReadOnly: &no,
		}},
		"cluster": {Kind: api.PlaceKubernetes},
	}
	if !reflect.DeepEqual(cfg.Runtimes, want) || cfg.DefaultRuntime != "build" || cfg.AdhocPlaces || cfg.RuntimeKinds != "docker,kubernetes" {
		t.Errorf("runtimes = %+v, %+v", cfg.Runtimes, cfg)
	}
	var list []string
	for _, e := range cfg.Entries() {
		if strings.HasPrefix(e.Key, "runtimes.") {
			if !strings.HasPrefix(e.Origin, "file /") {
				t.Errorf("%s: origin %q", e.Key, e.Origin)
			}
			list = append(list, fmt.Sprint(e.Key, "=", e.Value))
		}
	}
	if got := strings.Join(list, " "); got != "runtimes.build.kind=docker runtimes.build.image=golang:1 runtimes.build.labels=map[team:a] "+
		"runtimes.build.mounts=[/src:/src:ro] runtimes.build.read_only=false runtimes.build.allow=[image user] runtimes.cluster.kind=kubernetes" {
		t.Error(got)
	}
}
