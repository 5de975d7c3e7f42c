package security_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/tests/trltest"
)

// secrets are values that only the commands they are meant for may see. Each is a random-looking word that occurs nowhere by chance.
var secrets = map[string]string{
	"session env":        "qX7session-4f1c9a",
	"command env":        "qX7command-93bd02",
	"stdin":              "qX7stdin-77e1f4",
	"refused env":        "qX7refused-1d5c88",
	"refused stdin":      "qX7refusedstdin-5be1",
	"variable of a user": "qX7variable-c20f6e",
}

// TestSecrets sends secrets by every way there is, to commands that end in every
// way there is, at the most talkative log level, and then looks for them.
func TestSecrets(t *testing.T) {
	daemon := trltest.Start(t, trltest.Args("--kill-grace-s", "1", "--log-level", "debug"))
	for _, shell := range []string{"dash", "bash", "zsh", "busybox", "fish"} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip(err)
			}
			if shell == "busybox" {
				link := filepath.Join(t.TempDir(), "ash")
				if err := os.Symlink(path, link); err != nil {
					t.Fatal(err)
				}
				path = link
			}
			s := &spy{t: t, daemon: daemon, fish: shell == "fish"}
			s.conn = dial(t, daemon.Socket)
			s.use(path)
		})
	}
	search(t, "the daemon's log", []byte(daemon.Stderr()))
	if !strings.Contains(daemon.Stderr(), "s-") {
		t.Error("the log tells nothing of sessions; is the level debug?")
	}
	searchFiles(t, "at the end", daemon.StateDir, daemon.RuntimeDir)
}

// spy uses a session and reads every answer.
type spy struct {
	t       *testing.T
	daemon  *trltest.Daemon
	conn    *conn
	fish    bool
	session string
}

type object = map[string]any

func (s *spy) use(shell string) {
	created := s.call("session.create", object{"shell": shell, "env": object{"SECRET_S": secrets["session env"]}, "name": "n" + filepath.Base(shell)})
	s.session, _ = created["session_id"].(string)
	if s.session == "" {
		s.t.Fatalf("session.create: %v", created)
	}
	env := object{"SECRET_C": secrets["command env"]}
	stdin := secrets["stdin"] + "\n"

	// They arrive, or the rest proves nothing.
	s.run(object{"command": `test -n "$SECRET_S"; and test -n "$SECRET_C"`, "env": env}, s.fish)
	s.run(object{"command": `test -n "$SECRET_S" && test -n "$SECRET_C" && grep -q qX7stdin`, "env": env, "stdin": stdin}, true)

	self, set := "$$", "V="+"$(cat)"
	if s.fish {
		self, set = "$fish_pid", "read -g V"
	}
	// A value that the user reads into a variable is part of the state.
	s.run(object{"command": set, "stdin": secrets["variable of a user"] + "\n"}, true)
	for _, command := range []string{"false", "echo \"", "trl_no_such_command", "exit 3", "kill -9 " + self + "; sleep 20", "true & true", "cat >/dev/null; exit 4"} {
		s.run(object{"command": command, "env": env, "stdin": stdin, "timeout_s": 20}, false)
	}
	s.run(object{"command": "sleep 60", "env": env, "stdin": stdin, "timeout_s": 0.2}, false)
	s.run(object{"command": `test -n "$V"; and test -z "$SECRET_C"`}, s.fish)
	s.run(object{"command": `test -n "$V" && test -z "$SECRET_C"`}, !s.fish)

	s.refused()
	s.whileRunning(env, stdin)
	s.listings()
	s.call("session.destroy", object{"session_id": s.session})
	s.listings()
}

// refused sends secrets in requests that are wrong. The error names the field.
func (s *spy) refused() {
	value := secrets["refused env"]
	for _, params := range []object{
		{"command": "true", "env": object{"BAD-NAME": value}},
		{"command": "true", "env": object{"TRL_SESSION_ID": value}},
		{"command": "true", "env": object{"A": value + "\x00"}},
		{"command": "true", "env": object{"A": []string{value}}},
		{"command": "true", "env": value},
		{"command": "true", "stdin": object{"x": secrets["refused stdin"]}},
		{"command": "true", "stdin": secrets["refused stdin"], "stdin_base64": "eA=="},
		{"command": "true", "stdin_base64": secrets["refused stdin"] + "!"},
		{"command": "true", "env": object{"A": value}, "working_dir": "/no/such/dir"},
		{"command": "true", "env": object{"A": value}, "no_such_field": 1},
	} {
		params["session_id"] = s.session
		if answer := s.call("exec.run", params); answer["code"] == nil {
			s.t.Errorf("exec.run %v was not refused: %v", params, answer)
		}
	}
	if answer := s.call("session.create", object{"shell": "/no/such/shell", "env": object{"A": value}}); answer["code"] == nil {
		s.t.Errorf("session.create was not refused: %v", answer)
	}
}

// whileRunning looks at the machine in the middle of a command.
func (s *spy) whileRunning(env object, stdin string) {
	other := dial(s.t, s.daemon.Socket)
	defer other.close()
	other.send(object{"id": 1, "method": "exec.stream", "params": object{
		"session_id": s.session, "command": "cat >/dev/null; echo up; sleep 30", "env": env, "stdin": stdin, "timeout_s": 60}})
	for !bytes.Contains(other.line(), []byte("up\\n")) {
	}
	searchFiles(s.t, "while a command runs", s.daemon.StateDir, s.daemon.RuntimeDir)
	searchArguments(s.t)
	info := s.call("session.info", object{"session_id": s.session})
	runner, _ := info["runner_pid"].(float64)
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", int(runner)))
	if err != nil {
		s.t.Error(err)
	}
	search(s.t, "the environment of the runner", environ)
	s.listings()
	s.call("exec.cancel", object{"session_id": s.session})
}

func (s *spy) listings() {
	for _, method := range []string{"session.list", "exec.list", "system.info", "system.stats", "session.info"} {
		s.call(method, object{"session_id": s.session})
	}
}

// run runs a command that prints nothing secret.
func (s *spy) run(params object, mustSucceed bool) {
	params["session_id"] = s.session
	answer := s.call("exec.run", params)
	if code, ok := answer["exit_code"].(float64); mustSucceed && (!ok || code != 0) {
		s.t.Errorf("%v: %v", params["command"], answer)
	}
}

// call makes a request and searches the answer. It returns the data or the error.
func (s *spy) call(method string, params object) object {
	s.conn.send(object{"id": 1, "method": method, "params": params})
	line := s.conn.line()
	search(s.t, "the answer of "+method, line)
	var answer struct {
		Data, Error object
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		s.t.Fatalf("%s: %s: %q", method, err, line)
	}
	if answer.Error != nil {
		return answer.Error
	}
	return answer.Data
}

// search complains about every secret in data.
func search(t *testing.T, where string, data []byte) {
	t.Helper()
	for kind, secret := range secrets {
		if at := bytes.Index(data, []byte(secret)); at >= 0 {
			t.Errorf("a secret (%s) is in %s: %q", kind, where, data[max(0, at-200):min(len(data), at+40)])
		}
	}
}

func searchFiles(t *testing.T, when string, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				data, _ := os.ReadFile(path)
				search(t, when+", "+path, data)
			}
			return nil
		})
	}
}

// searchArguments looks at the argument list of every process of the machine.
func searchArguments(t *testing.T) {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		data, _ := os.ReadFile(file)
		search(t, file, data)
	}
}

// conn is a connection that speaks the protocol by hand: what is searched is what
// is really on the wire.
type conn struct {
	t    *testing.T
	conn net.Conn
	rest []byte
}

func dial(t *testing.T, socket string) *conn {
	t.Helper()
	var d net.Dialer
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	return &conn{t: t, conn: c}
}

func (c *conn) close() { c.conn.Close() }

func (c *conn) send(v any) {
	c.t.Helper()
	line, err := json.Marshal(v)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.conn.Write(append(line, '\n')); err != nil {
		c.t.Fatal(err)
	}
}

func (c *conn) line() []byte {
	c.t.Helper()
	buf := make([]byte, 64<<10)
	for {
		if line, rest, ok := bytes.Cut(c.rest, []byte("\n")); ok {
			c.rest = rest
			return line
		}
		n, err := c.conn.Read(buf)
		if err != nil {
			c.t.Fatalf("read: %s", err)
		}
		c.rest = append(c.rest, buf[:n]...)
	}
}
