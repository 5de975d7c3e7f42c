//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/internal/testkit"
)

// TestInstalledPeers types the commands of the page that install the peers from public packages. make compare finds
// each of them then, in the version that was installed, and runs a command with it. Codex does all tasks, which takes
// 25 seconds; the others would take longer.
func TestInstalledPeers(t *testing.T) {
	if testing.Short() {
		t.Skip("downloads 200 MB")
	}
	prefix, venv := reader(t)
	// The page is about the newest versions: npm and pip are asked for nothing else.
	script := command(t, "../../docs/comparison.md", "## What is compared", "npm and PyPI")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "sh", "-exc", script).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, version := range map[string]string{
		"codex exec-server": npmVersion(t, prefix, "@openai/codex"),
		"sandbox-agent":     npmVersion(t, prefix, "@sandbox-agent/cli"),
		"swe-rex":           pipVersion(t, venv, "swe_rex"),
	} {
		t.Run(name, func(t *testing.T) { peer(t, name, version) })
	}
	// A server that was killed behind its script of node may need a moment to end.
	testkit.Eventually(t, "nothing of the peers runs", func() bool {
		for _, dir := range testkit.Must(filepath.Glob("/proc/[0-9]*"))(t) {
			exe, _ := os.Readlink(dir + "/exe")
			args, _ := os.ReadFile(dir + "/cmdline")
			if text := exe + " " + string(args); strings.Contains(text, prefix) || strings.Contains(text, venv) {
				return false
			}
		}
		return true
	})
}

// peer starts what the comparison has for a name, and runs a command with it.
func peer(t *testing.T, name, version string) {
	for _, c := range candidates {
		if c.name != name {
			continue
		}
		f := &fixture{}
		defer f.end()
		why := f.try(func() {
			s := c.make(f, "")
			s.name = name
			if !strings.HasSuffix(s.version, version) {
				t.Errorf("says that it is %q; %s is installed", s.version, version)
			}
			t.Logf("%s %s", name, version)
			if name == "codex exec-server" {
				measured(t, measure(s, 1))
				return
			}
			if s.renew != nil {
				s.renew()
			}
			a, _, err := s.try("echo hello; (exit 3)", 0, time.Minute)
			if err != nil || a.status != 3 || strings.TrimSpace(string(a.output)) != "hello" {
				t.Errorf("status %d, output %q, %v", a.status, a.output, err)
			}
		})
		if why != "" {
			t.Errorf("%s %s: %s", name, version, why)
		}
		return
	}
	t.Fatal("is not compared")
}

// measured checks that every task gave a result. Only those that do not depend on the peer must have a certain one.
func measured(t *testing.T, r row) {
	t.Helper()
	if r.latency == 0 || r.rate == 0 || r.exit != "status 3, no session" || r.forged != "right: has no marker" ||
		!strings.HasPrefix(r.timeout, "returns after ") || r.background == "" || !strings.HasPrefix(r.afterKill, "the command ") {
		t.Errorf("true: %s; 100 MB: %.0f/s %s; background: %s; timeout: %s; exit: %s; marker: %s; kill: %s",
			r.latency, r.rate, r.remark, r.background, r.timeout, r.exit, r.forged, r.afterKill)
	}
	t.Logf("timeout: %s; kill: %s", r.timeout, r.afterKill)
}

// reader makes this process a reader of the page whose npm and pip install into directories of the test, which it
// returns. npm and pip find the registries that they are configured for. The test is skipped where they find none.
func reader(t *testing.T) (prefix, venv string) {
	t.Helper()
	for _, name := range []string{"npm", "node", "python3"} {
		if _, err := exec.LookPath(name); err != nil {
			skip(t, "%s is not installed", name)
		}
	}
	home, dir := testkit.Must(os.UserHomeDir())(t), t.TempDir()
	prefix, venv = filepath.Join(dir, "npm"), filepath.Join(dir, "python")
	// npm would look for the second below the new prefix.
	for _, config := range []string{"userconfig", "globalconfig"} {
		out := testkit.Must(exec.Command("npm", "config", "get", config).Output())(t)
		t.Setenv("npm_config_"+config, strings.TrimSpace(string(out)))
	}
	if out, err := exec.Command("python3", "-m", "venv", venv).CombinedOutput(); err != nil {
		skip(t, "python3 makes no virtual environment: %v: %s", err, out)
	}
	own := filepath.Join(dir, "home")
	for _, config := range []string{".config/pip", ".pip"} {
		if _, err := os.Stat(filepath.Join(home, config)); err != nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(own, config)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(home, config), filepath.Join(own, config)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(own, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"HOME": own, "PATH": filepath.Join(venv, "bin") + ":" + filepath.Join(prefix, "bin") + ":" + os.Getenv("PATH"),
		"VIRTUAL_ENV": venv, "npm_config_prefix": prefix, "npm_config_cache": "", "npm_config_audit": "false", "npm_config_fund": "false",
		"XDG_CACHE_HOME": "", "XDG_CONFIG_HOME": "", "PIP_CACHE_DIR": filepath.Join(dir, "cache"), "PIP_DISABLE_PIP_VERSION_CHECK": "1",
		"TRL_COMPARE_CODEX": "", "TRL_COMPARE_SWEREX": "", "TRL_COMPARE_SANDBOX_AGENT": "",
	} {
		t.Setenv(name, value)
		if value == "" {
			os.Unsetenv(name)
		}
	}
	// Packages that are there as long as the registries are: a wrong name on the page is no reason to skip.
	for _, probe := range [][]string{
		{"npm", "view", "npm", "version", "--loglevel=error", "--fetch-retries=0", "--fetch-timeout=20000"},
		{"pip", "download", "--quiet", "--no-deps", "--retries", "0", "--timeout", "20", "--dest", filepath.Join(dir, "probe"), "pip"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, probe[0], probe[1:]...)
		cmd.Env = append(os.Environ(), "PIP_FIND_LINKS=") // a directory is no registry
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			skip(t, "%s does not reach its registry: %v: %s", probe[0], err, short(fmt.Errorf("%s", out)))
		}
	}
	return prefix, venv
}

// skip says what is not tested, where go test -v is not needed to see it.
func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	fmt.Fprintf(os.Stderr, "SKIPPED: %s: %s\nNOT TESTED: the commands of docs/comparison.md that install Codex, sandbox-agent and SWE-ReX, and the comparison with them\n",
		t.Name(), fmt.Sprintf(format, args...))
	t.SkipNow()
}

// npmVersion returns the version of a package that npm has installed.
func npmVersion(t *testing.T, prefix, name string) string {
	t.Helper()
	var p struct{ Version string }
	path := filepath.Join(prefix, "lib/node_modules", name, "package.json")
	if err := json.Unmarshal(testkit.Must(os.ReadFile(path))(t), &p); err != nil || p.Version == "" {
		t.Fatalf("%s: %v", path, err)
	}
	return p.Version
}

// pipVersion returns the version of a package that pip has installed.
func pipVersion(t *testing.T, venv, name string) string {
	t.Helper()
	found := testkit.Must(filepath.Glob(filepath.Join(venv, "lib/python*/site-packages", name+"-*.dist-info")))(t)
	if len(found) != 1 {
		t.Fatalf("%s is installed in %q", name, found)
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), name+"-"), ".dist-info")
}
