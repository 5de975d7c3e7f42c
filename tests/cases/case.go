package cases

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
)

// Case is one story. Its steps run in one session, in order.
type Case struct {
	ID     string   `json:"id"`
	Shells []string `json:"shells"`
	Title  string   `json:"title"`
	Level  string   `json:"level"`
	Why    string   `json:"why"`
	Source string   `json:"source"`
	OS     []string `json:"os"`
	Tags   []string `json:"tags"`
	Steps  []Step   `json:"steps"`
	// Session holds parameters of session.create; the shell is filled in.
	Session api.SessionCreateParams `json:"session"`
	// Differential says that the real shell must agree; see differ.go.
	Differential bool `json:"differential"`
	// ShellRestarts is how often the shell may have been replaced when the case is over.
	ShellRestarts *int64 `json:"shell_restarts"`
	// GoneAfterDestroy is a regular expression that no process on the machine
	// matches once the session is destroyed.
	GoneAfterDestroy string `json:"gone_after_destroy"`
}

// Step is one command of a case, or one call of another method.
type Step struct {
	Command        *string           `json:"command"`
	CommandGen     *Gen              `json:"command_gen"`
	Stdin          *string           `json:"stdin"`
	StdinGen       *Gen              `json:"stdin_gen"`
	StdinBase64    string            `json:"stdin_base64"`
	Env            map[string]string `json:"env"`
	WorkingDir     string            `json:"working_dir"`
	TimeoutS       *float64          `json:"timeout_s"`
	MaxOutputBytes *int64            `json:"max_output_bytes"`
	// CancelOn is a regular expression: the command is cancelled as soon as its
	// stdout matches.
	CancelOn     string `json:"cancel_on"`
	CancelSignal string `json:"cancel_signal"`
	// API names another method, called with Params. $SESSION and $EXEC in them
	// stand for the session and for the last command.
	API    string          `json:"api"`
	Params json.RawMessage `json:"params"`
	// IdleS leaves the session alone for that long before the step. It is for what
	// happens by the clock inside an idle shell, and for nothing else.
	IdleS  float64 `json:"idle_s"`
	Expect Expect  `json:"expect"`
}

// Gen is a text too long to be written down.
type Gen struct {
	Prefix string `json:"prefix"`
	Repeat string `json:"repeat"`
	Times  int    `json:"times"`
	Suffix string `json:"suffix"`
}

// Text is the whole of it.
func (g Gen) Text() string { return g.Prefix + strings.Repeat(g.Repeat, g.Times) + g.Suffix }

// CommandText is the command, written down or generated.
func (s Step) CommandText() string {
	switch {
	case s.CommandGen != nil:
		return s.CommandGen.Text()
	case s.Command != nil:
		return *s.Command
	}
	return ""
}

// execParams are the parameters of exec.run for this step.
func (s Step) execParams(sessionID string) api.ExecParams {
	p := api.ExecParams{
		SessionID: sessionID, Command: s.CommandText(), TimeoutS: s.TimeoutS,
		Stdin: s.Stdin, StdinBase64: s.StdinBase64, Env: s.Env, WorkingDir: s.WorkingDir,
		MaxOutputBytes: s.MaxOutputBytes,
	}
	if s.StdinGen != nil {
		text := s.StdinGen.Text()
		p.Stdin = &text
	}
	if p.TimeoutS == nil {
		// No case needs longer; one that hangs must not hold up the others.
		limit := 30.0
		p.TimeoutS = &limit
	}
	if p.MaxOutputBytes == nil && s.Expect.StdoutSHA256 != "" {
		// A hash is over everything.
		all := int64(64 << 20)
		p.MaxOutputBytes = &all
	}
	return p
}

// SkipReason says why the case cannot run in the shell on this machine; "" if it can.
func (c Case) SkipReason(shell Shell) string {
	switch {
	case len(c.OS) > 0 && !slices.Contains(c.OS, runtime.GOOS):
		return fmt.Sprintf("only on %s", c.OS)
	case shell.Applets && slices.Contains(c.Tags, "exec"):
		return "needs programs that are files"
	}
	return ""
}

// IsSlow reports whether the case takes long in every shell: it waits for a timeout or for an idle
// shell, or has much output.
func (c Case) IsSlow() bool {
	return slices.Contains(c.Tags, "large") || slices.ContainsFunc(c.Steps, func(s Step) bool { return s.TimeoutS != nil || s.IdleS > 0 })
}

// CallsMethods reports whether a step calls another method than exec.run.
func (c Case) CallsMethods() bool {
	return slices.ContainsFunc(c.Steps, func(s Step) bool { return s.API != "" })
}

// Corpus reads all cases of a directory: the shared ones and those of this project.
func Corpus(dir, mark string) (list []Case, err error) {
	for _, name := range []string{"shell.jsonl", "own.jsonl"} {
		more, err := Load(filepath.Join(dir, name), mark)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// Load reads a file of cases. A field that is not known is an error, so that a
// mistyped expectation does not pass unseen. The cases come with names of their own
// for mark; see own.
func Load(path, mark string) ([]Case, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	data = own(data, mark)
	var list []Case
	seen := map[string]bool{}
	for i, line := range bytes.Split(data, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var c Case
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&c); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("%s:%d: case %q: %w", path, i+1, c.ID, err)
		}
		if seen[c.ID] {
			return nil, fmt.Errorf("%s:%d: case %q: the id is taken", path, i+1, c.ID)
		}
		seen[c.ID] = true
		list = append(list, c)
	}
	return list, nil
}

// What cases leave where others see it: names in /tmp, and on the machine's list of
// processes the time that a sleep was given (in a regular expression its dot is
// escaped, and JSON escapes that once more).
var (
	names  = regexp.MustCompile(`trl_tc_|trl-marker-`)
	sleeps = regexp.MustCompile(`((?:leep|yes) \d+(?:\\\\)?\.\d+)`)
)

// own gives the text of cases names that no other run has, so that several shells and
// several tests can run beside each other. mark is two digits. The 0 before it keeps the
// number of one case from being the beginning of another one's: 44.2 and 44.21 become
// 44.2011 and 44.21012.
func own(text []byte, mark string) []byte {
	if mark == "" {
		return text
	}
	text = names.ReplaceAll(text, []byte("${0}"+mark))
	return sleeps.ReplaceAll(text, []byte("${1}0"+mark))
}

func (c Case) check() error {
	switch {
	case c.ID == "":
		return fmt.Errorf("has no id")
	case len(c.Shells) == 0 || len(c.Steps) == 0:
		return fmt.Errorf("needs shells and steps")
	}
	for _, name := range c.Shells {
		if !slices.Contains(ShellNames, name) {
			return fmt.Errorf("unknown shell %q", name)
		}
	}
	for i, s := range c.Steps {
		if (s.Command == nil && s.CommandGen == nil) == (s.API == "") {
			return fmt.Errorf("step %d: needs one of command and api", i+1)
		}
		if _, err := base64.StdEncoding.DecodeString(s.StdinBase64); err != nil {
			return fmt.Errorf("step %d: stdin_base64: %w", i+1, err)
		}
		if err := s.Expect.compile(); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}
