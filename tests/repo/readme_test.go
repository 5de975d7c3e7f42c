package repo_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/tests/trltest"
)

// block is a fenced block of a document.
type block struct {
	line    int    // of the opening fence
	lang    string // the first word after the fence
	code    string
	skipped string // why it is not run: <!-- not run: why --> on the line before
	output  string // the text block that follows directly, if any
	checked bool   // whether there is one
}

var notRun = regexp.MustCompile(`^<!-- not run: (.+) -->$`)

// shBlocks returns the sh blocks of a document, in order. A text block directly
// after one is what it prints; … stands for anything.
func shBlocks(t *testing.T, document string) []block {
	t.Helper()
	var blocks []block
	var open *block
	before := ""
	lastEnd := -10
	for i, line := range strings.Split(read(t, document), "\n") {
		switch {
		case open == nil && strings.HasPrefix(line, "```"):
			open = &block{line: i + 1, lang: strings.TrimPrefix(line, "```")}
			if m := notRun.FindStringSubmatch(before); m != nil {
				open.skipped = m[1]
			}
		case open != nil && line == "```":
			if open.lang == "text" && open.line-lastEnd <= 2 {
				blocks[len(blocks)-1].output, blocks[len(blocks)-1].checked = open.code, true
			}
			if open.lang == "sh" {
				blocks = append(blocks, *open)
				lastEnd = i + 1
			}
			open = nil
		case open != nil:
			open.code += line + "\n"
		}
		before = line
	}
	if open != nil {
		t.Fatalf("%s:%d: block without an end", document, open.line)
	}
	return blocks
}

// TestReadmeCommandsWork is a reader with an empty home directory who types
// every sh block of the README into one shell, from top to bottom.
func TestReadmeCommandsWork(t *testing.T) {
	needTools(t)
	dir := t.TempDir()
	typeBlocks(t, reader{document: "README.md", dir: dir, cwd: root, trl: filepath.Join(root, "bin", "trl"), env: readerEnv(t, dir)})
}

// TestGuideCommandsWork is such a reader for each guide, who has installed trl and its Python client.
func TestGuideCommandsWork(t *testing.T) {
	needTools(t)
	sdk, err := filepath.Abs(filepath.Join(root, "sdk/python/src"))
	if err != nil {
		t.Fatal(err)
	}
	trl := trltest.Binary(t)
	for _, document := range guides(t) {
		t.Run(filepath.Base(document), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			env := readerEnv(t, dir)
			env[0] = strings.Replace(env[0], "PATH=", "PATH="+filepath.Dir(trl)+":", 1)
			env = append(env, "PYTHONPATH="+sdk, "GORACE=atexit_sleep_ms=0")
			typeBlocks(t, reader{document: document, dir: dir, cwd: filepath.Join(dir, "home"), trl: trl, env: env})
		})
	}
}

// needTools skips a test without the programs that the documents use.
func needTools(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs TRL")
	}
	for _, tool := range []string{"bash", "make", "python3", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
}

// guides are the documents, besides the README, whose commands a reader can type from top to bottom.
func guides(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "docs/guides/*.md"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	list := []string{"docs/quickstart.md", "docs/concepts.md", "docs/coming-from.md", "docs/troubleshooting.md"}
	for _, file := range files {
		list = append(list, "docs/guides/"+filepath.Base(file))
	}
	return list
}

// reader is a person who tries a document out.
type reader struct {
	document string
	dir      string // of the reader's files
	cwd      string // where the reader begins
	trl      string // the program
	env      []string
}

// typeBlocks types the sh blocks of a document into one shell, from top to bottom.
func typeBlocks(t *testing.T, r reader) {
	t.Helper()
	t.Cleanup(func() { stopDaemon(t, r) })
	document, dir := r.document, r.dir
	var script strings.Builder
	script.WriteString("set -eu\n")
	blocks := shBlocks(t, document)
	for i, b := range blocks {
		if b.skipped == "" {
			fmt.Fprintf(&script, "exec >%s 2>&1\n%s", outputFile(dir, i), b.code)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	// A file, not stdin: a command that reads its input must not eat the rest.
	file := filepath.Join(dir, "script")
	if err := os.WriteFile(file, []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", file)
	cmd.Dir, cmd.Env = r.cwd, r.env
	scriptErr := cmd.Run()

	last := -1
	for i, b := range blocks {
		out, err := os.ReadFile(outputFile(dir, i))
		if err != nil {
			continue
		}
		last = i
		if b.checked && !matches(b.output, string(out)) {
			t.Errorf("%s:%d: printed\n%s\nthe document says\n%s", document, b.line, out, b.output)
		}
	}
	if scriptErr != nil {
		out, _ := os.ReadFile(outputFile(dir, last))
		t.Fatalf("%s:%d: %s\n%s\nprinted\n%s", document, blocks[max(last, 0)].line, scriptErr, blocks[max(last, 0)].code, out)
	}
}

func outputFile(dir string, i int) string { return filepath.Join(dir, "out."+strconv.Itoa(i)) }

// readerEnv is the environment of a fresh user who has the go command and its caches.
func readerEnv(t *testing.T, dir string) []string {
	t.Helper()
	env := []string{"PATH=" + trltest.AgentPath(t), "LANG=C.UTF-8"} // the reader has a coding agent
	for name, mode := range map[string]os.FileMode{"home": 0o755, "run": 0o700, "tmp": 0o755} {
		if err := os.Mkdir(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	env = append(env, "HOME="+filepath.Join(dir, "home"), "TMPDIR="+filepath.Join(dir, "tmp"),
		"TRL_SOCKET_PATH="+filepath.Join(dir, "run", "trl.sock"), "TRL_RUNTIME_DIR="+filepath.Join(dir, "run"))
	for _, key := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOFLAGS", "GOTOOLCHAIN"} {
		out, err := exec.Command("go", "env", key).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, key+"="+strings.TrimSpace(string(out)))
	}
	return env
}

// stopDaemon ends the daemon that the commands started, and proves that neither
// it nor any session left a process behind.
func stopDaemon(t *testing.T, r reader) {
	t.Helper()
	stop := exec.Command(r.trl, "stop")
	stop.Env = r.env
	if out, err := stop.CombinedOutput(); err != nil {
		t.Logf("trl stop: %s\n%s", err, out)
	}
	var home string
	for _, kv := range r.env {
		if strings.HasPrefix(kv, "HOME=") {
			home = kv
		}
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

// matches compares output with what a document shows; … stands for anything,
// also over several lines.
func matches(shown, printed string) bool {
	var pattern strings.Builder
	for i, part := range strings.Split(strings.TrimSpace(shown), "…") {
		if i > 0 {
			pattern.WriteString("(?s:.*)")
		}
		pattern.WriteString(regexp.QuoteMeta(part))
	}
	return regexp.MustCompile(`\A` + pattern.String() + `\z`).MatchString(strings.TrimSpace(printed))
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		shown, printed string
		want           bool
	}{
		{"hello", "hello\n", true},
		{"hello", "hello\nhello\n", false},
		{"a … c", "a b c", true},
		{"a\n…\nc", "a\n1\n2\nc", true},
		{"a … c", "a b d", false},
		{"1.5 (x)", "1.5 (x)", true},
		{"1.5", "1x5", false},
	} {
		if got := matches(c.shown, c.printed); got != c.want {
			t.Errorf("matches(%q, %q) = %v", c.shown, c.printed, got)
		}
	}
}
