package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/mount"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
)

// desk is a home directory with a docker configuration.
func desk(t *testing.T, config string, env map[string]string, sockets ...string) surroundings {
	t.Helper()
	home := t.TempDir()
	write(t, filepath.Join(home, ".docker/config.json"), config)
	return surroundings{
		env: func(name string) string { return env[name] }, home: home,
		exists: func(path string) bool {
			if strings.HasPrefix(path, home) {
				_, err := os.Stat(path)
				return err == nil
			}
			return slices.Contains(sockets, path)
		},
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if content == "" {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
}

func contextDir(home, part, name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(home, ".docker/contexts", part, hex.EncodeToString(sum[:]))
}

func TestFindEngine(t *testing.T) {
	for _, c := range []struct {
		name, named, config string
		env                 map[string]string
		sockets             []string
		want                address
		err                 string
	}{
		{name: "nothing", err: "no container engine was found"},
		{name: "docker", sockets: []string{"/var/run/docker.sock", "/run/podman/podman.sock"}, want: address{Host: "unix:///var/run/docker.sock"}},
		{name: "docker without root", env: map[string]string{"XDG_RUNTIME_DIR": "/run/user/7"}, sockets: []string{"/run/user/7/docker.sock"}, want: address{Host: "unix:///run/user/7/docker.sock"}},
		{name: "podman", sockets: []string{"/run/podman/podman.sock"}, want: address{Host: "unix:///run/podman/podman.sock"}},
		{name: "podman without root", env: map[string]string{"XDG_RUNTIME_DIR": "/run/user/7"}, sockets: []string{"/run/user/7/podman/podman.sock"}, want: address{Host: "unix:///run/user/7/podman/podman.sock"}},
		{name: "variable", env: map[string]string{"DOCKER_HOST": "unix:///x.sock"}, sockets: []string{"/var/run/docker.sock"}, want: address{Host: "unix:///x.sock"}},
		{name: "option", named: "/y.sock", env: map[string]string{"DOCKER_HOST": "unix:///x.sock"}, want: address{Host: "unix:///y.sock"}},
		{name: "certificates", env: map[string]string{"DOCKER_HOST": "tcp://build:2376", "DOCKER_CERT_PATH": "/certs", "DOCKER_TLS_VERIFY": "1"}, want: address{Host: "tcp://build:2376", Certs: "/certs"}},
		{name: "unverified", env: map[string]string{"DOCKER_HOST": "tcp://build:2376", "DOCKER_CERT_PATH": "/certs"}, want: address{Host: "tcp://build:2376", Certs: "/certs", Unproved: true}},
		{name: "ssh", env: map[string]string{"DOCKER_HOST": "ssh://me@build"}, err: "use ssh:me@build as the place"},
		{name: "unknown protocol", named: "carrier://pigeon", err: "protocol carrier is not known"},
		{name: "no protocol", named: "build", err: "unix:///PATH or tcp://HOST:PORT"},
		{name: "current context", config: `{"currentContext":"work"}`, sockets: []string{"/var/run/docker.sock"}, want: address{Host: "unix:///work.sock"}},
		{name: "variable for the context", env: map[string]string{"DOCKER_CONTEXT": "work"}, want: address{Host: "unix:///work.sock"}},
		{name: "default context", config: `{"currentContext":"default"}`, sockets: []string{"/var/run/docker.sock"}, want: address{Host: "unix:///var/run/docker.sock"}},
		{name: "context that is not there", env: map[string]string{"DOCKER_CONTEXT": "away"}, err: `docker context "away": not found`},
		{name: "broken configuration", config: `{`, err: "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := desk(t, c.config, c.env, c.sockets...)
			write(t, contextDir(s.home, "meta", "work")+"/meta.json", `{"Name":"work","Endpoints":{"docker":{"Host":"unix:///work.sock"}}}`)
			got, err := findEngine(c.named, s)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || got != c.want {
				t.Fatalf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestContextWithCertificates(t *testing.T) {
	s := desk(t, `{"currentContext":"far"}`, map[string]string{"DOCKER_CERT_PATH": "/not/these"})
	write(t, contextDir(s.home, "meta", "far")+"/meta.json", `{"Endpoints":{"docker":{"Host":"tcp://far:2376","SkipTLSVerify":true}}}`)
	certs := contextDir(s.home, "tls", "far") + "/docker"
	write(t, certs+"/ca.pem", "x")
	if got, err := findEngine("", s); err != nil || got != (address{Host: "tcp://far:2376", Certs: certs, Unproved: true}) {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestCredentials(t *testing.T) {
	// The reaper would take the children of the other tests.
	const mark = "DOCKER_TEST_WITH_REAPER"
	if os.Getenv(mark) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestCredentials$", "-test.v")
		cmd.Env = append(os.Environ(), mark+"=1", "TRL_TOKEN=secret")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	reaper := process.NewReaper()
	defer reaper.Close()
	d := New(Config{Spawn: reaper.Start, Forget: func(int) {}})
	bin := t.TempDir()
	write(t, bin+"/docker-credential-one", `#!/bin/sh
read -r server
[ -z "$TRL_TOKEN" ] || exit 9
case $server in
reg.example) echo '{"ServerURL":"reg.example","Username":"helped","Secret":"by one"}' ;;
token.example) echo '{"Username":"<token>","Secret":"t0ken"}' ;;
slow.example) sleep 1000 ;;
broken.example) echo 'the keyring is locked'; exit 1 ;;
*) echo 'credentials not found in native keychain'; exit 1 ;;
esac
`)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	const file = `{"auths":{"plain.example":{"auth":"bWU6c2VjOnJldA=="},"https://index.docker.io/v1/":{"auth":"aHViOnB3"},"https://old.example/v2/":{"auth":"bzpw"},"bad.example":{"auth":"%%"}},`
	for _, c := range []struct{ name, config, image, user, password, token, err string }{
		{name: "none", image: "plain.example/x"},
		{name: "file", config: file + `"x":0}`, image: "plain.example/x:1", user: "me", password: "sec:ret"},
		{name: "file, Docker Hub", config: file + `"x":0}`, image: "alpine", user: "hub", password: "pw"},
		{name: "file, old form", config: file + `"x":0}`, image: "old.example/x", user: "o", password: "p"},
		{name: "file, unreadable", config: file + `"x":0}`, image: "bad.example/x", err: "docker login"},
		{name: "file, another registry", config: file + `"x":0}`, image: "other.example/x"},
		{name: "helper for all", config: `{"credsStore":"one"}`, image: "reg.example/x", user: "helped", password: "by one"},
		{name: "helper for one", config: `{"credsStore":"missing","credHelpers":{"reg.example":"one"}}`, image: "reg.example/x", user: "helped", password: "by one"},
		{name: "helper with a token", config: `{"credsStore":"one"}`, image: "token.example/x", token: "t0ken"},
		{name: "helper that knows nothing", config: `{"credsStore":"one","auths":{"x.example":{"auth":"YTpi"}}}`, image: "x.example/x", user: "a", password: "b"},
		{name: "helper that fails", config: `{"credsStore":"one"}`, image: "broken.example/x", err: "the keyring is locked"},
		{name: "helper that is not there", config: `{"credsStore":"missing"}`, image: "reg.example/x", err: "docker-credential-missing"},
		{name: "bad name", image: "UPPER", err: "must be lowercase"},
	} {
		t.Run(c.name, func(t *testing.T) {
			header, err := d.credentials(t.Context(), desk(t, c.config, nil), c.image)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := authconfig.Decode(header)
			if err != nil || got.Username != c.user || got.Password != c.password || got.IdentityToken != c.token {
				t.Fatalf("%+v, %v", got, err)
			}
			if (header == "") != (c.user == "" && c.token == "") {
				t.Fatalf("header %q", header)
			}
		})
	}
	t.Run("helper that does not end", func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("no more time"))
		defer cancel()
		if _, err := d.credentials(ctx, desk(t, `{"credsStore":"one"}`, nil), "slow.example/x"); err == nil || !strings.Contains(err.Error(), "no more time") {
			t.Error(err)
		}
	})
}

func TestParseMount(t *testing.T) {
	for _, c := range []struct {
		in   string
		want mount.Mount
	}{
		{"/src:/work", mount.Mount{Type: mount.TypeBind, Source: "/src", Target: "/work"}},
		{"/src:/work/:ro", mount.Mount{Type: mount.TypeBind, Source: "/src", Target: "/work", ReadOnly: true}},
		{"cache:/root/.cache:rw", mount.Mount{Type: mount.TypeVolume, Source: "cache", Target: "/root/.cache"}},
	} {
		if got, err := parseMount(c.in); err != nil || got.Type != c.want.Type || got.Source != c.want.Source || got.Target != c.want.Target || got.ReadOnly != c.want.ReadOnly {
			t.Errorf("%s: %+v, %v", c.in, got, err)
		}
	}
	for _, in := range []string{"", "/src", ":/x", "/src:work", "/src:/x:wo", "/a:/b:ro:z", "./src:/x", "~/src:/x", "src/x:/x", "/src:/", "/src:/.trl", "/src:/.trl/x", "/src:/a/../.trl"} {
		if got, err := parseMount(in); err == nil {
			t.Errorf("%q became %+v", in, got)
		} else if e := api.AsError(err); e.Code != api.CodeInvalidParams || e.Details["field"] != "place.mounts" {
			t.Errorf("%q: %+v", in, e)
		}
	}
}

func FuzzParseMount(f *testing.F) {
	f.Add("/src:/work:ro")
	f.Add("cache:/x")
	f.Fuzz(func(t *testing.T, in string) {
		m, err := parseMount(in)
		if err == nil && (m.Source == "" || !strings.HasPrefix(m.Target, "/") || m.Target == "/" || strings.HasPrefix(m.Target+"/", runnerDir+"/")) {
			t.Errorf("%q became %+v", in, m)
		}
	})
}

func TestWishes(t *testing.T) {
	for option, o := range map[string]api.PlaceOptions{
		"image":    {},
		"pull":     {Image: "x", Pull: "sometimes"},
		"platform": {Image: "x", Platform: "arm64"},
		"labels":   {Image: "x", Labels: map[string]string{labelSession: "s-1"}},
		"mounts":   {Image: "x", Mounts: []string{"x"}},
	} {
		if _, err := wishes(o); err == nil || api.AsError(err).Details["field"] != "place."+option {
			t.Errorf("%s: %v", option, err)
		}
	}
}

// The error for an engine that does not run, or may not be used, gives the reason.
func TestBrokenEngine(t *testing.T) {
	dir := t.TempDir()
	ask := func(host string) error {
		d := New(Config{})
		defer d.Close()
		_, err := d.find(t.Context(), must(d.engineAt(address{Host: host})), api.PlaceOptions{Container: "x"})
		return err
	}
	if err := ask("unix://" + dir + "/none.sock"); !errors.Is(err, api.ErrRuntimeUnavailable) || !strings.Contains(err.Error(), "the socket does not exist") {
		t.Error(err)
	}
	l, err := net.Listen("unix", dir+"/closed.sock")
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	if err := ask("unix://" + dir + "/closed.sock"); !errors.Is(err, api.ErrRuntimeUnavailable) || !strings.Contains(err.Error(), "not reachable") {
		t.Error(err)
	}
	if err := ask("tcp://127.0.0.1:1"); !errors.Is(err, api.ErrRuntimeUnavailable) || !strings.Contains(err.Error(), "tcp://127.0.0.1:1: not reachable") {
		t.Error(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
