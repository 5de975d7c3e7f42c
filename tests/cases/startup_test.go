package cases_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/cases"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestStartupFiles: a login shell reads the profile, and a shell with rc the file of ENV, in the
// directory of the session. What they set and print is what a terminal would show.
func TestStartupFiles(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", *grace, "--log-level", "error"))
	service := daemon.Client(t)
	links := t.TempDir()
	for _, name := range []string{"sh", "ash", "ash-static"} {
		shell, err := cases.FindShell(name, links)
		if err != nil {
			t.Logf("SKIPPED: %s: %v", name, err)
			continue
		}
		t.Run(name, func(t *testing.T) {
			home, arg0 := t.TempDir(), filepath.Base(shell.Path)
			write := func(name, text string) string {
				path := filepath.Join(home, name)
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			write(".profile", "PROFILE=\"$0 $PWD ${OLDPWD-unset}\"\n${missing?fails}\n")
			write("it's rc", "RC=\"$PROFILE, $PWD\"; cd /\n")
			env := map[string]string{"HOME": home, "ENV": "$HOME/it's rc"}
			for _, c := range []struct {
				p    api.SessionCreateParams
				want string
			}{
				{api.SessionCreateParams{}, "[] [] [] /usr unset\n"},
				{api.SessionCreateParams{Login: true}, "[] [" + arg0 + " /usr unset] [] /usr unset\n"},
				{api.SessionCreateParams{RC: true}, "[, /usr] [] [$HOME/it's rc] / /usr\n"},
				{api.SessionCreateParams{Login: true, RC: true}, "[" + arg0 + " /usr unset, /usr] [" + arg0 + " /usr unset] [$HOME/it's rc] / /usr\n"},
			} {
				c.p.Shell, c.p.WorkingDir, c.p.Env = shell.Path, "/usr", env
				info := testkit.Must(service.SessionCreate(t.Context(), c.p))(t)
				for _, after := range []string{"", "exit 3"} {
					if after != "" {
						testkit.Must(service.ExecRun(t.Context(), api.ExecParams{SessionID: info.SessionID, Command: after}))(t)
					}
					r := testkit.Must(service.ExecRun(t.Context(), api.ExecParams{SessionID: info.SessionID, Command: `echo "[${RC-}] [${PROFILE-}] [${ENV-}] $PWD ${OLDPWD-unset}"`}))(t)
					if r.Stdout != c.want || r.Stderr != "" {
						t.Errorf("login %t, rc %t, after %q: stdout %q, want %q, stderr %q", c.p.Login, c.p.RC, after, r.Stdout, c.want, r.Stderr)
					}
				}
				testkit.Must(service.SessionDestroy(t.Context(), api.SessionDestroyParams{SessionID: info.SessionID}))(t)
			}
		})
	}
}

// TestInteractiveStartupFiles: startup files ask with PS1 whether the shell is interactive, and may make
// variables readonly or define aliases.
func TestInteractiveStartupFiles(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", *grace, "--log-level", "error"))
	service := daemon.Client(t)
	links := t.TempDir()
	for _, name := range []string{"sh", "ash", "ash-static", "bash", "zsh"} {
		shell, err := cases.FindShell(name, links)
		if err != nil {
			t.Logf("SKIPPED: %s: %v", name, err)
			continue
		}
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			rc := map[string]string{"bash": ".bashrc", "zsh": ".zshrc"}[name]
			if rc == "" {
				rc = "rc"
			}
			text := `[ -n "$PS1" ] || return; alias trap=false unset=false set=false; readonly PS1; RC=read` + "\n"
			if err := os.WriteFile(filepath.Join(home, rc), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			info := testkit.Must(service.SessionCreate(t.Context(), api.SessionCreateParams{Shell: shell.Path, RC: true, Env: map[string]string{"HOME": home, "ENV": "$HOME/rc"}}))(t)
			for _, c := range []struct{ command, want string }{
				{`echo "$RC"`, "read\n"},
				{`K=kept; exit 3`, ""},
				{`echo "$RC $K"; case "$("set")" in *__trl_*) echo leaked;; esac`, "read kept\n"},
			} {
				r := testkit.Must(service.ExecRun(t.Context(), api.ExecParams{SessionID: info.SessionID, Command: c.command}))(t)
				if r.Stdout != c.want || r.Stderr != "" {
					t.Errorf("%q: stdout %q, want %q, stderr %q", c.command, r.Stdout, c.want, r.Stderr)
				}
			}
			r := testkit.Must(service.ExecRun(t.Context(), api.ExecParams{SessionID: info.SessionID, Command: `"trap"`}))(t)
			if !strings.Contains(r.Stdout, "URG") || !strings.Contains(r.Stdout, "EXIT") {
				t.Errorf("traps %q", r.Stdout)
			}
		})
	}
}

// TestShellNames: the shell may be found under any name, and a variable ENV that is empty stays.
func TestShellNames(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", *grace, "--log-level", "error"))
	service := daemon.Client(t)
	links := t.TempDir()
	shell, err := cases.FindShell("sh", links)
	if err != nil {
		t.Skip(err)
	}
	if shell.Path, err = filepath.EvalSymlinks(shell.Path); err != nil || filepath.Base(shell.Path) != "dash" {
		t.Skip("no dash")
	}
	for _, name := range []string{"c", "d", "s", "+x", "a b", "it's"} {
		path := filepath.Join(links, name)
		if err := os.Symlink(shell.Path, path); err != nil {
			t.Fatal(err)
		}
		info := testkit.Must(service.SessionCreate(t.Context(), api.SessionCreateParams{Shell: path, RC: true, Env: map[string]string{"ENV": ""}}))(t)
		for _, c := range []struct{ command, want string }{{"K=kept; exit 3", ""}, {`echo "$K ${ENV-unset}"`, "kept \n"}} {
			r := testkit.Must(service.ExecRun(t.Context(), api.ExecParams{SessionID: info.SessionID, Command: c.command}))(t)
			if r.Stdout != c.want || r.Stderr != "" {
				t.Errorf("%s: %q: stdout %q, want %q, stderr %q", name, c.command, r.Stdout, c.want, r.Stderr)
			}
		}
	}
}
