package repo_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/trl-dev/trl/tests/dialogue/programs"
	"github.com/trl-dev/trl/tests/trltest"
)

// elsewhere are the pages whose commands need what another test has, and a word of the file that types them.
var elsewhere = map[string]struct{ file, word string }{
	"docs/grpc.md":     {"tests/grpc/docs_test.go", "docs/grpc.md"},
	"docs/http.md":     {"tests/http/docs_test.go", "docs/http.md"},
	"docs/network.md":  {"tests/security/docs_linux_test.go", "docs/network.md"},
	"docs/runtimes.md": {"tests/places/examples_test.go", "docs/runtimes.md"},
	"examples/":        {"tests/examples/examples_test.go", "trltest.Example("},
}

// pages returns every document with commands, and which of them are typed by this test.
func pages(t *testing.T) (all map[string][]trltest.Block, here []string) {
	t.Helper()
	all = map[string][]trltest.Block{}
	sourceFiles(t, func(file string) {
		if path.Ext(file) != ".md" {
			return
		}
		blocks, err := trltest.Blocks(read(t, file))
		if err != nil {
			t.Errorf("%s: %s", file, err)
		}
		if len(blocks) == 0 {
			return
		}
		all[file] = blocks
		typed := false
		for prefix := range elsewhere {
			typed = typed || strings.HasPrefix(file, prefix)
		}
		if !typed && file != "README.md" {
			here = append(here, file)
		}
	})
	return all, here
}

// TestReadmeCommandsWork is a reader with an empty home directory who types
// every sh block of the README into one shell, from top to bottom.
func TestReadmeCommandsWork(t *testing.T) {
	needTools(t)
	typePage(t, "README.md", root, filepath.Join(root, "bin", "trl"), readerEnv(t))
}

// TestCommandsOfPagesWork is such a reader for each other page, who has installed trl and its Python client.
func TestCommandsOfPagesWork(t *testing.T) {
	needTools(t)
	sdk, err := filepath.Abs(filepath.Join(root, "sdk/python/src"))
	if err != nil {
		t.Fatal(err)
	}
	trl := trltest.Binary(t)
	_, here := pages(t)
	for _, document := range here {
		t.Run(document, func(t *testing.T) {
			t.Parallel()
			env := readerEnv(t)
			env["PATH"] = filepath.Dir(trl) + ":" + env["PATH"]
			env["PYTHONPATH"] = sdk
			typePage(t, document, env["HOME"], trl, env)
		})
	}
}

// TestWorkflowOfThePageWorks runs the steps that docs/guides/ci.md has for GitHub Actions. The first is the command
// of the README that installs trl, which tools/release types.
func TestWorkflowOfThePageWorks(t *testing.T) {
	needTools(t)
	text := trltest.OneSnippet(t, "docs/guides/ci.md", "## GitHub Actions", "yaml")
	var steps []struct{ Run string }
	if err := yaml.Unmarshal([]byte(text), &steps); err != nil || len(steps) < 3 {
		t.Fatalf("the page has the steps %q, %v", steps, err)
	}
	if install := steps[0].Run; !strings.Contains(read(t, "README.md"), "\n"+install+"\n") {
		t.Errorf("the README does not install trl with %q", install)
	}
	env := readerEnv(t)
	env["PATH"] = filepath.Dir(trltest.Binary(t)) + ":" + env["PATH"]
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte("test:\n\t@echo tested\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range steps[1:] {
		bashIn(t, dir, env, step.Run)
	}
	for name, want := range map[string]string{"result.json": `"stdout":"tested\n","stderr":"","exit_code":0`, "events.json": `"exec.exited"`} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %v: %s", name, err, got)
		}
	}
}

// bashIn runs commands in a directory, until one fails, as a step on GitHub does.
func bashIn(t *testing.T, dir string, env map[string]string, commands string) {
	t.Helper()
	cmd := exec.Command("bash", "-e", "-c", commands)
	cmd.Dir = dir
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", commands, err, out)
	}
}

// TestPictureIsMadeByTRL makes the picture of the README again, with the commands that docs/demo.sh begins with.
func TestPictureIsMadeByTRL(t *testing.T) {
	needTools(t)
	env := readerEnv(t)
	env["PATH"] = filepath.Dir(trltest.Binary(t)) + ":" + env["PATH"]
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "docs"), os.DirFS(filepath.Join(root, "docs"))); err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^#   (trl .*)$`).FindAllStringSubmatch(read(t, "docs/demo.sh"), -1)
	if len(commands) != 2 {
		t.Fatalf("docs/demo.sh has the commands %q", commands)
	}
	for _, command := range append(commands, []string{"", "trl stop"}) {
		bashIn(t, dir, env, command[1])
	}
	duration := regexp.MustCompile(`(?m)^.*timed out after .*$`)
	made, err := os.ReadFile(filepath.Join(dir, "docs/demo.svg"))
	if got, want := duration.ReplaceAllString(string(made), ""), duration.ReplaceAllString(read(t, "docs/demo.svg"), ""); err != nil || got != want {
		t.Errorf("%v; TRL makes another picture:\n%s", err, made)
	}
}

// TestCommandsAreTyped checks that other tests type the pages that they should, and the blocks that need
// what only they have.
func TestCommandsAreTyped(t *testing.T) {
	for page, by := range elsewhere {
		if !strings.Contains(read(t, by.file), by.word) {
			t.Errorf("%s: does not type the commands of %s", by.file, page)
		}
	}
	places := read(t, "tests/places/places_test.go")
	for _, section := range strings.Split(read(t, "docs/runtimes.md"), "\n## ")[1:] {
		heading, text, _ := strings.Cut(section, "\n")
		blocks, err := trltest.Blocks(text)
		if err != nil {
			t.Errorf("docs/runtimes.md, %s: %s", heading, err)
		}
		typed := strings.Contains(places, fmt.Sprintf("section: %q", heading))
		if !typed && len(blocks) > 0 {
			t.Errorf("docs/runtimes.md: tests/places does not type the commands of the section %q", heading)
		}
	}
	all, here := pages(t)
	for file, blocks := range all {
		lines := strings.Split(read(t, file), "\n")
		for _, b := range blocks {
			where := fmt.Sprintf("%s:%d", file, b.Line)
			by := trltest.Needs[b.Needs]
			if b.Needs == "" || by == path.Dir(elsewhere[file].file) || by == "tests/repo" && (file == "README.md" || slices.Contains(here, file)) {
				continue
			}
			var typed string // by which the test names the block
			switch heading := headingAbove(lines, b.Line); {
			case by == ".ci/run":
				typed = "\n" + b.Code
			case path.Ext(by) == ".sh":
				typed = "commands " + file + " '" + heading + "'"
			default:
				typed = file + `", "` + heading + `"`
			}
			if !strings.Contains(sourceOfTests(t, by), typed) {
				t.Errorf("%s: needs %s, but %s does not type %s", where, b.Needs, by, typed)
			}
		}
	}
}

// headingAbove returns the heading above a line of a page.
func headingAbove(lines []string, line int) string {
	for line--; line >= 0; line-- {
		if strings.HasPrefix(lines[line], "#") {
			return lines[line]
		}
	}
	return ""
}

// sourceOfTests returns the text of a script, or that of all tests of a package.
func sourceOfTests(t *testing.T, name string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, name, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		return read(t, name)
	}
	var all strings.Builder
	for _, file := range files {
		all.WriteString(read(t, path.Join(name, filepath.Base(file))))
	}
	return all.String()
}

var enabledUnit = regexp.MustCompile(`systemctl (--user )?enable --now (\S+)`)

// TestUnitsOfPagesCanBeEnabled enables the units that the pages enable, with the systemctl of this machine, in a
// directory that has only the units of the packages. tests/vm starts them.
func TestUnitsOfPagesCanBeEnabled(t *testing.T) {
	systemctl, err := exec.LookPath("systemctl")
	if err != nil {
		t.Skip(err)
	}
	all, _ := pages(t)
	for file, blocks := range all {
		for _, b := range blocks {
			for _, m := range enabledUnit.FindAllStringSubmatch(b.Code, -1) {
				kind, args := "system", []string{"enable", m[2]}
				if m[1] != "" { // for all users, because a manager of one user has no other root
					kind, args = "user", append(args, "--global")
				}
				machine := t.TempDir()
				if err := os.CopyFS(filepath.Join(machine, "usr/lib/systemd"), os.DirFS(filepath.Join(root, "dist/systemd"))); err != nil {
					t.Fatal(err)
				}
				out, err := exec.Command(systemctl, append(args, "--root="+machine)...).CombinedOutput()
				if link := filepath.Join(machine, "etc/systemd", kind, "sockets.target.wants", m[2]); err == nil {
					_, err = os.Readlink(link)
				}
				if err != nil {
					t.Errorf("%s:%d: %s: %s\n%s", file, b.Line, m[0], err, out)
				}
			}
		}
	}
}

// needTools skips a test without the programs that the documents use.
func needTools(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs TRL")
	}
	for _, tool := range []string{"bash", "curl", "git", "go", "make", "openssl", "python3"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
}

// typePage is a reader who types the commands of a document, beginning in the directory cwd.
func typePage(t *testing.T, document, cwd, trl string, env map[string]string) {
	t.Helper()
	var list, has []string
	for key, value := range env {
		list = append(list, key+"="+value)
	}
	claude, codex := programs.Installed()
	if claude != "" {
		list, has = append(list, "REAL_CLAUDE="+claude), append(has, "Claude Code")
	}
	if codex != "" {
		list, has = append(list, "REAL_CODEX="+codex), append(has, "Codex")
	}
	// No packet is sent: a datagram socket can be connected if there is a way to other machines.
	if c, err := net.Dial("udp", "192.0.2.1:9"); err == nil {
		c.Close()
		has = append(has, "a network")
	}
	t.Cleanup(func() { stopDaemon(t, trl, list, "HOME="+env["HOME"]) })
	trltest.Reader{Dir: cwd, Env: list, Has: has}.Type(t, document, read(t, document))
}

// readerEnv is the environment of a fresh user who has the go command and its caches, and a coding agent.
func readerEnv(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"home": 0o755, "run": 0o700, "tmp": 0o755} {
		if err := os.Mkdir(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	run := filepath.Join(dir, "run")
	env := map[string]string{
		"PATH": trltest.AgentPath(t), "LANG": "C.UTF-8", "HOME": filepath.Join(dir, "home"), "TMPDIR": filepath.Join(dir, "tmp"),
		"TRL_SOCKET_PATH": filepath.Join(run, "trl.sock"), "TRL_RUNTIME_DIR": run,
		"TRL_STATE_DIR": filepath.Join(dir, "home", ".local", "state", "trl"), // that of a user with this home
	}
	for _, key := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOFLAGS", "GOTOOLCHAIN"} {
		out, err := exec.Command("go", "env", key).Output()
		if err != nil {
			t.Fatal(err)
		}
		env[key] = strings.TrimSpace(string(out))
	}
	return env
}

// stopDaemon ends the daemon that the commands started, and proves that neither
// it nor any session left a process behind.
func stopDaemon(t *testing.T, trl string, env []string, home string) {
	t.Helper()
	stop := exec.Command(trl, "stop")
	stop.Env = env
	if out, err := stop.CombinedOutput(); err != nil {
		t.Logf("trl stop: %s\n%s", err, out)
	}
	environs, _ := filepath.Glob("/proc/[0-9]*/environ") // none on macOS
	for _, file := range environs {
		b, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append([]byte{0}, b...), []byte("\x00"+home+"\x00")) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		t.Errorf("%s: still runs after trl stop: %q", filepath.Dir(file), cmdline)
	}
}
