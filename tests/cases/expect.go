package cases

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
)

// Expect is what a step must answer. What is absent is not checked.
type Expect struct {
	Stdout       *string  `json:"stdout"`
	Stderr       *string  `json:"stderr"`
	StdoutBase64 string   `json:"stdout_base64"`
	StdoutRegex  string   `json:"stdout_regex"`
	StderrRegex  string   `json:"stderr_regex"`
	ExitCode     *int     `json:"exit_code"`
	TimedOut     *bool    `json:"timed_out"`
	Cancelled    *bool    `json:"cancelled"`
	ErrorCode    string   `json:"error_code"`
	MaxMS        *float64 `json:"max_ms"`
	StdoutBytes  *int64   `json:"stdout_bytes"`
	StderrBytes  *int64   `json:"stderr_bytes"`
	StdoutSHA256 string   `json:"stdout_sha256"`
	// Truncated is whether the result carries less of stdout than was written.
	Truncated *bool `json:"stdout_truncated"`
	// LeftRunning is how many processes the result names, LeftRunningRegex what
	// one of their command lines matches.
	LeftRunning      *int   `json:"left_running"`
	LeftRunningRegex string `json:"left_running_regex"`
	// KilledRegex must match one line "COMMAND SIGNAL" of what was killed.
	KilledRegex    string `json:"killed_regex"`
	ShellRestarted *bool  `json:"shell_restarted"`
	WorkingDir     string `json:"working_dir"`
	// Signal is the name without SIG.
	Signal string `json:"signal"`
	// SessionAlive is whether the session is idle and usable after the step.
	SessionAlive *bool `json:"session_alive"`
	// Gone and Running look at the whole machine when the answer is there: no
	// process, at least one process, whose command line matches.
	Gone    string `json:"gone"`
	Running string `json:"running"`
	// DataRegex must match the answer of another method, as JSON.
	DataRegex string `json:"data_regex"`
}

func (e Expect) regexes() map[string]string {
	return map[string]string{
		"stdout_regex": e.StdoutRegex, "stderr_regex": e.StderrRegex, "left_running_regex": e.LeftRunningRegex,
		"killed_regex": e.KilledRegex, "gone": e.Gone, "running": e.Running, "data_regex": e.DataRegex,
	}
}

// compile finds a regular expression that is none before anything runs.
func (e Expect) compile() error {
	for field, text := range e.regexes() {
		if _, err := regexp.Compile(text); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

// complaints collects what is not as expected.
type complaints []string

func (c *complaints) addf(format string, args ...any) { *c = append(*c, fmt.Sprintf(format, args...)) }

// checkError compares a refusal. done says that there is nothing more to check.
func (e Expect) checkError(err error, bad *complaints) (done bool) {
	switch {
	case err == nil && e.ErrorCode == "":
		return false
	case err == nil:
		bad.addf("answered, must be refused with %s", e.ErrorCode)
	case e.ErrorCode == "":
		bad.addf("refused: %s: %s", api.AsError(err).Code, err)
	case e.ErrorCode != "any" && string(api.AsError(err).Code) != e.ErrorCode:
		bad.addf("refused with %s (%s), must be %s", api.AsError(err).Code, err, e.ErrorCode)
	}
	return true
}

// checkResult compares the outcome of a command that took this long.
func (e Expect) checkResult(r api.ExecResult, took time.Duration, scale float64, bad *complaints) {
	stdout, stderr := r.StdoutData(), r.StderrData()
	if e.Stdout != nil && *e.Stdout != string(stdout) {
		bad.addf("stdout %s, must be %s", quote(stdout), quote([]byte(*e.Stdout)))
	}
	if e.StdoutBase64 != "" {
		want, _ := base64.StdEncoding.DecodeString(e.StdoutBase64)
		if !bytes.Equal(want, stdout) {
			bad.addf("stdout %s, must be %s", quote(stdout), quote(want))
		}
	}
	if e.Stderr != nil && *e.Stderr != string(stderr) {
		bad.addf("stderr %s, must be %s", quote(stderr), quote([]byte(*e.Stderr)))
	}
	matches(bad, "stdout", e.StdoutRegex, stdout)
	matches(bad, "stderr", e.StderrRegex, stderr)
	if e.ExitCode != nil && *e.ExitCode != r.ExitCode {
		bad.addf("exit_code %d, must be %d (stdout %s, stderr %s)", r.ExitCode, *e.ExitCode, quote(stdout), quote(stderr))
	}
	flag(bad, "timed_out", e.TimedOut, r.TimedOut)
	flag(bad, "cancelled", e.Cancelled, r.Cancelled)
	flag(bad, "shell_restarted", e.ShellRestarted, r.ShellRestarted)
	flag(bad, "stdout_truncated", e.Truncated, r.StdoutTruncated)
	if e.StdoutBytes != nil && *e.StdoutBytes != r.StdoutBytes {
		bad.addf("stdout_bytes %d, must be %d", r.StdoutBytes, *e.StdoutBytes)
	}
	if e.StderrBytes != nil && *e.StderrBytes != r.StderrBytes {
		bad.addf("stderr_bytes %d, must be %d", r.StderrBytes, *e.StderrBytes)
	}
	if e.StdoutSHA256 != "" {
		if sum := sha256.Sum256(stdout); hex.EncodeToString(sum[:]) != e.StdoutSHA256 {
			bad.addf("the hash of stdout (%d bytes) differs", len(stdout))
		}
	}
	if e.WorkingDir != "" && e.WorkingDir != r.WorkingDir {
		bad.addf("working_dir %q, must be %q", r.WorkingDir, e.WorkingDir)
	}
	if e.Signal != "" && e.Signal != strings.TrimPrefix(r.Signal, "SIG") {
		bad.addf("signal %q, must be %q", r.Signal, e.Signal)
	}
	e.checkProcesses(r, bad)
	if e.MaxMS != nil {
		if limit := time.Duration(*e.MaxMS * scale * float64(time.Millisecond)); took > limit {
			bad.addf("took %s, at most %s", took.Round(time.Millisecond), limit)
		}
	}
	checkConsistent(r, bad)
}

func (e Expect) checkProcesses(r api.ExecResult, bad *complaints) {
	var left, killed []string
	for _, p := range r.LeftRunning {
		left = append(left, p.Command)
	}
	for _, p := range r.Killed {
		killed = append(killed, p.Command+" "+strings.TrimPrefix(p.Signal, "SIG"))
	}
	if e.LeftRunning != nil && *e.LeftRunning != len(left) {
		bad.addf("left_running names %q, must be %d", left, *e.LeftRunning)
	}
	oneMatches(bad, "left_running", e.LeftRunningRegex, left)
	oneMatches(bad, "killed", e.KilledRegex, killed)
}

// checkConsistent checks what must be true of every result.
func checkConsistent(r api.ExecResult, bad *complaints) {
	if r.LeftRunning == nil || r.Killed == nil {
		bad.addf("left_running or killed is null, must be a list")
	}
	if !r.StdoutTruncated && r.StdoutBytes != int64(len(r.StdoutData())) {
		bad.addf("stdout_bytes is %d, but the result has %d and is not truncated", r.StdoutBytes, len(r.StdoutData()))
	}
	if !r.StderrTruncated && r.StderrBytes != int64(len(r.StderrData())) {
		bad.addf("stderr_bytes is %d, but the result has %d and is not truncated", r.StderrBytes, len(r.StderrData()))
	}
	if r.TimedOut && r.ExitCode != api.ExitTimedOut {
		bad.addf("timed out with exit_code %d", r.ExitCode)
	}
	if r.Cancelled && r.ExitCode != api.ExitCancelled {
		bad.addf("cancelled with exit_code %d", r.ExitCode)
	}
}

func matches(bad *complaints, what, regex string, text []byte) {
	if regex != "" && !regexp.MustCompile(regex).Match(text) {
		bad.addf("%s %s, must match %q", what, quote(text), regex)
	}
}

func oneMatches(bad *complaints, what, regex string, lines []string) {
	if regex == "" {
		return
	}
	re := regexp.MustCompile(regex)
	for _, line := range lines {
		if re.MatchString(line) {
			return
		}
	}
	bad.addf("%s is %q, one must match %q", what, lines, regex)
}

func flag(bad *complaints, what string, want *bool, got bool) {
	if want != nil && *want != got {
		bad.addf("%s is %t", what, got)
	}
}

// quote shows bytes in a message, not more than one can read.
func quote(b []byte) string {
	const most = 300
	if len(b) <= most {
		return fmt.Sprintf("%q", b)
	}
	return fmt.Sprintf("%q… (%d bytes)", b[:most], len(b))
}
