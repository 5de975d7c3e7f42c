package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/internal/cli/early"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/place"
	"github.com/trl-dev/trl/internal/testkit"
)

// FuzzEarly: package early accepts only command lines that the command itself understands in the
// same way. The arguments are separated by NUL.
func FuzzEarly(f *testing.F) {
	plain := []string{"-s\x00x\x00true", "-sx\x00true", "--session\x00x\x00true", "--session=x\x00true", "-s\x00x\x00--\x00true", "-s\x00x\x00--\x00-v\x00true",
		"-s\x00x\x00echo\x00-s\x00--\x00y", "-s\x00x\x00--\x00--", "-sx=y\x00true", "-s\x00ü\x00é"}
	other := []string{"", "--session==\x00true", "true", "-s\x00x", "-s\x00\x00true", "-s\x00x\x00", "-s\x00x\x00--", "-s=x\x00true", "-s=\x00true", "--session=\x00true", "-s\x00-x\x00true",
		"-s\x00--\x00true", "--session\x00--\x00true", "-s\x00x\x00-v\x00true", "-s\x00x\x00-\x00true", "-vs\x00x\x00true", "-v\x00-s\x00x\x00true", "-s\x00x\x00-s\x00y\x00true",
		"-s\x00x\x00--json\x00true", "--sess\x00x\x00true", "-s\x00x\xff\x00true", "-s\x00x\x00\xff", "-i\x00-s\x00x\x00cat", "--help", "-s\x00x\x00--help", "-shell\x00--\x00-i\x00\x00"}
	for _, line := range slices.Concat(plain, other) {
		f.Add(line)
	}
	for _, line := range plain {
		if _, _, ok := early.Parse(append([]string{"trl", "run"}, strings.Split(line, "\x00")...)); !ok {
			f.Errorf("not recognised: %q", line)
		}
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := append([]string{"run"}, strings.Split(line, "\x00")...)
		session, words, ok := early.Parse(append([]string{"/usr/bin/trl"}, args...))
		if !ok {
			return
		}
		a := &app{}
		root := a.root(args)
		cmd, rest, err := root.Find(endFlags(root, args))
		if err == nil {
			cmd.InitDefaultHelpFlag()
			err = cmd.ParseFlags(rest)
		}
		if err != nil || cmd.Name() != "run" {
			t.Fatalf("%q: %s: %v", args, cmd.Name(), err)
		}
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if f.Name != "session" {
				t.Errorf("%q: has the flag %s", args, f.Name)
			}
		})
		if got := cmd.Flag("session").Value.String(); got != session {
			t.Errorf("%q: the session is %q, not %q", args, got, session)
		}
		if got := cmd.Flags().Args(); !slices.Equal(got, words) || checkCommand(cmd, got) != nil {
			t.Errorf("%q: the command is %q, not %q", args, got, words)
		}
	})
}

// TestEarlyLeavesOthersAlone: the runner, and every other command, starts as ever.
func TestEarlyLeavesOthersAlone(t *testing.T) {
	for _, args := range [][]string{
		nil, {"trl"}, {"trl", "run"}, {"trl", "start", "-s", "x", "true"}, {"trl", "serve", "-s", "x", "true"}, {"trl", "-v", "run", "-s", "x", "true"},
		{"/x/trl-runner", "run", "-s", "x", "true"}, {".trl-runner-1", "run", "-s", "x", "true"},
	} {
		if _, _, ok := early.Parse(args); ok {
			t.Errorf("%q is recognised", args)
		}
	}
}

// TestEarlyFindsTheDaemon: package early looks for the daemon where the settings say, or nowhere.
func TestEarlyFindsTheDaemon(t *testing.T) {
	home, configured := testkit.Dir(t), testkit.Dir(t)
	if err := os.MkdirAll(filepath.Join(configured, ".config", "trl"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(configured, ".config", "trl", "config.toml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	held := testkit.Dir(t)
	lock, err := place.TakeLock(held, "/tmp/elsewhere.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	for _, tt := range []struct {
		environ string // separated by spaces
		plain   bool
	}{
		{"HOME=" + home, true},
		{"HOME=", true},
		{"HOME=/nosuch", true},
		{"HOME=" + home + " TRL_STATE_DIR=" + held, true},
		{"HOME=" + home + " XDG_STATE_HOME=" + held + " XDG_CONFIG_HOME=relative", true},
		{"HOME=" + home + " TRL_SOCKET_PATH=/a/b.sock TRL_STATE_DIR=/c TRL_RUNTIME_DIR=/d", true},
		{"HOME=" + home + " TRL_SESSION_ID=s-1 TRL_EXEC_ID=x TRL_AUTH_TOKEN=t TRL_URL= TRL_MAX_SESSIONS=", true},
		{"HOME=" + configured, false},
		{"HOME=" + configured + " XDG_CONFIG_HOME=" + home, true},
		{"HOME=" + home + " XDG_CONFIG_HOME=" + filepath.Join(configured, ".config"), false},
		{"HOME=" + home + " TRL_CONFIG=/dev/null", false},
		{"HOME=" + home + " TRL_URL=http://127.0.0.1:1", false},
		{"HOME=" + home + " TRL_SOCKET_PATH=http://127.0.0.1:1", false},
		{"HOME=" + home + " TRL_SOCKET_PATH=relative", false},
		{"HOME=" + home + " TRL_SOCKET_PATH=/a/../b", false},
		{"HOME=" + home + " TRL_SOCKET_PATH=/" + strings.Repeat("x", 200), false},
		{"HOME=" + home + " TRL_RUNTIME_DIR=/a$b", false},
		{"HOME=" + home + " TRL_MAX_SESSIONS=many", false},
		{"HOME=" + home + " TRL_MAX_SESSIONS=5", false},
	} {
		environ := strings.Fields(tt.environ)
		got := early.Sockets(environ)
		if (got != nil) != tt.plain {
			t.Errorf("%s: %q", tt.environ, got)
		}
		if got == nil {
			continue
		}
		cfg, err := config.Load(nil, environ)
		want := []string{cfg.Socket}
		if cfg.Origin("socket") == config.OriginDefault {
			want = place.Find(cfg.StateDir)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q, %v", tt.environ, got, want, err)
		}
	}
}
