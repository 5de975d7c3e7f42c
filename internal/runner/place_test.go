package runner_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/runner"
	"github.com/trl-dev/trl/internal/testkit"
)

// spot is a place where trl-runner is called by hand.
type spot struct {
	testing.TB
	base string
	env  []string
}

func newSpot(t testing.TB) *spot {
	s := &spot{TB: t, base: filepath.Join(testkit.Dir(t), "p")}
	s.env = []string{
		"TRL_RUNNER_DIR=" + s.base, "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GORACE=atexit_sleep_ms=0", "OF_PLACE=yes",
		"SSH_CONNECTION=1 2 3 4", "SSH_AUTH_SOCK=/x", "TERM=xterm", "SHLVL=3",
	}
	t.Cleanup(func() {
		if left, err := os.ReadDir(s.base); err == nil {
			t.Errorf("%s is left, with %v", s.base, left)
		}
	})
	return s
}

func (s *spot) command(args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Args, cmd.Env = append([]string{runner.Name + "-0123456789abcdef"}, args...), s.env
	return cmd
}

// call runs a verb and decodes its answer, unless v is nil.
func (s *spot) call(v any, args ...string) (status int, said string) {
	s.Helper()
	cmd := s.command(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.Fatal(err)
	}
	if v != nil && err == nil {
		if err := json.Unmarshal(out, v); err != nil || bytes.Count(out, []byte("\n")) != 1 {
			s.Fatalf("%v: answer %q: %v", args, out, err)
		}
	}
	return cmd.ProcessState.ExitCode(), stderr.String()
}

func (s *spot) must(v any, args ...string) {
	s.Helper()
	if status, said := s.call(v, args...); status != 0 {
		s.Fatalf("%v: status %d: %s", args, status, said)
	}
}

// identity is what the verbs call a runner.
func identity(r link.Report) []string {
	return []string{r.Dir, strconv.Itoa(r.PID), strconv.FormatUint(r.Start, 10)}
}

// joined is the link through `trl-runner connect`.
type joined struct {
	io.Writer
	*bufio.Reader
	stdin  io.Closer
	stdout io.Closer
	cmd    *exec.Cmd
}

func (j *joined) Close() error {
	j.stdin.Close()
	return j.stdout.Close()
}

func (s *spot) join(r link.Report) *joined {
	s.Helper()
	cmd := s.command(append(append([]string{"connect"}, identity(r)...), "nonce")...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	j := &joined{stdin, bufio.NewReader(stdout), stdin, stdout, cmd}
	if line, err := j.ReadString('\n'); err != nil || line != link.Preamble("nonce") {
		s.Fatalf("preamble %q, %v", line, err)
	}
	return j
}

// dial connects to a runner as a daemon does.
func (s *spot) dial(r link.Report) (conn *link.Conn, end func()) {
	s.Helper()
	j := s.join(r)
	conn = link.NewConn(j)
	var served sync.WaitGroup
	served.Go(func() { _ = conn.Serve(deaf{}) })
	if err := hello(conn, "key"); err != nil {
		s.Fatal(err)
	}
	return conn, func() {
		conn.Close()
		served.Wait()
		_ = j.cmd.Wait()
	}
}

type deaf struct{}

func (deaf) Handle(context.Context, *link.Incoming) error {
	return errors.New("a runner does not call")
}
func (deaf) Event(string, json.RawMessage, []byte) {}

// create makes a session as a daemon does that does not know the place.
func (s *spot) create(conn *link.Conn, id string) {
	s.Helper()
	var d link.SessionDetails
	p := &link.CreateParams{SessionID: id, Params: api.SessionCreateParams{Shell: "/bin/sh"}, CreatedAt: time.Now(), Limits: limits}
	if _, err := conn.Call(s.Context(), link.Create.With(p, nil, &d)); err != nil {
		s.Fatal(err)
	}
}

func (s *spot) run(conn *link.Conn, command string) string {
	s.Helper()
	var r link.RunResult
	text, err := conn.Call(s.Context(), link.ExecRun.With(&link.ExecParams{ExecParams: api.ExecParams{Command: command}}, nil, &r))
	if err != nil {
		s.Fatal(err)
	}
	return string(text[:r.StdoutLen])
}

const spotID = "s-00000000aa"

func TestRunnerInAPlace(t *testing.T) {
	s := newSpot(t)
	var r link.Report
	cmd := s.command("start", spotID)
	theirs, ours, err := os.Pipe() // a descriptor that the runner must not inherit
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	defer ours.Close()
	cmd.ExtraFiles = []*os.File{theirs, theirs, ours}
	out, err := cmd.Output()
	if err != nil || json.Unmarshal(out, &r) != nil {
		t.Fatalf("start: %q, %v", out, err)
	}
	if r.Dir != filepath.Join(s.base, spotID) || r.PID <= 0 || r.Start == 0 {
		t.Errorf("report %+v", r)
	}
	for path, want := range map[string]os.FileMode{s.base: 0o700, r.Dir: 0o700, r.Dir + "/link.sock": 0o600, r.Dir + "/log": 0o600} {
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, fi, err)
		}
	}
	if sid, err := unix.Getsid(r.PID); err != nil || sid != r.PID {
		t.Errorf("the runner is in session %d, %v", sid, err)
	}
	if runtime.GOOS == "linux" {
		pipe, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", theirs.Fd()))
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", r.PID))
		for _, fd := range fds {
			if to, _ := os.Readlink(fd); to == pipe {
				t.Errorf("the runner has inherited %s", to)
			}
		}
	}
	var again link.Report
	if s.must(&again, "start", spotID); again != r {
		t.Errorf("start again: %+v, want %+v", again, r)
	}

	conn, end := s.dial(r)
	s.create(conn, spotID)
	if got := s.run(conn, `echo "$OF_PLACE $TERM [$SSH_CONNECTION$SSH_AUTH_SOCK$TRL_RUNNER_DIR]"; v=kept`); got != "yes dumb []\n" {
		t.Errorf("environment: %q", got)
	}
	// It begins where trl-runner was started: in the directory of an image, or at home.
	if got, want := s.run(conn, `pwd; echo "[$TRL_START_DIR]"`), testkit.Must(os.Getwd())(t)+"\n[]\n"; got != want {
		t.Errorf("directory: %q, want %q", got, want)
	}
	s.run(conn, "setsid sleep 4321 >/dev/null 2>&1 &")
	end() // the connection ends, the session does not
	conn, end = s.dial(r)
	if got := s.run(conn, `echo "$v"`); got != "kept\n" {
		t.Errorf("after the connection broke: %q", got)
	}
	end()

	other := r
	other.Start++
	if status, said := s.call(nil, append(append([]string{"connect"}, identity(other)...), "n")...); status != link.StatusGone {
		t.Errorf("connect to another process: %d, %s", status, said)
	}
	s.must(nil, append([]string{"kill"}, identity(other)...)...)
	if _, ok := process.Stat(r.PID); !ok {
		t.Fatal("kill has killed another process than it was asked to")
	}
	s.must(nil, append([]string{"kill"}, identity(r)...)...)
	if status, said := s.call(nil, append(append([]string{"connect"}, identity(r)...), "n")...); status != link.StatusGone || !strings.Contains(said, "its process no longer exists") {
		t.Errorf("connect to a killed runner: %d, %s", status, said)
	}
	var removed link.Removed
	s.must(&removed, append([]string{"remove"}, identity(r)...)...)
	if !slices.ContainsFunc(removed.Killed, func(k api.KilledProcess) bool { return k.Command == "sleep 4321" }) {
		t.Errorf("removed: %+v", removed)
	}
	s.must(&removed, append([]string{"remove"}, identity(r)...)...) // again, with nothing there
	if len(removed.Killed) != 0 {
		t.Errorf("removed again: %+v", removed)
	}
}

// TestRemoveByID: a daemon that does not know what became of its start removes a session by its id.
func TestRemoveByID(t *testing.T) {
	s := newSpot(t)
	var r link.Report
	s.must(&r, "start", spotID)
	s.must(nil, "remove", spotID, "0", "0", "--clean")
	if info, ok := process.Stat(r.PID); ok && !info.Ended() {
		t.Error("the runner lives")
	}
	s.must(nil, "remove", spotID, "0", "0")
}

func TestStartManyTimesAtOnce(t *testing.T) {
	s := newSpot(t)
	reports := make([]link.Report, 8)
	var all sync.WaitGroup
	for i := range reports {
		all.Go(func() {
			out, err := s.command("start", spotID).Output()
			if err != nil || json.Unmarshal(out, &reports[i]) != nil {
				t.Errorf("start: %q, %v", out, err)
			}
		})
	}
	all.Wait()
	for _, r := range reports[1:] {
		if r != reports[0] {
			t.Errorf("%+v and %+v", reports[0], r)
		}
	}
	s.must(nil, append([]string{"remove"}, identity(reports[0])...)...)
}

func TestRunnerWithoutSocketIsHidden(t *testing.T) {
	s := newSpot(t)
	var r link.Report
	s.must(&r, "start", spotID)
	if err := os.Remove(r.Dir + "/link.sock"); err != nil {
		t.Fatal(err)
	}
	if status, said := s.call(nil, append(append([]string{"connect"}, identity(r)...), "n")...); status != link.StatusHidden {
		t.Errorf("connect: %d, %s", status, said)
	}
	s.must(nil, append([]string{"remove"}, identity(r)...)...)
}

func TestPlaceOfOthersIsRefused(t *testing.T) {
	s := newSpot(t)
	if err := os.MkdirAll(s.base, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.base, 0o777); err != nil {
		t.Fatal(err)
	}
	var r link.Report
	s.must(&r, "start", spotID)
	if strings.HasPrefix(r.Dir, s.base) {
		t.Errorf("the session is in %s, which others may write to", r.Dir)
	}
	s.must(nil, append([]string{"remove"}, identity(r)...)...)
	os.Remove(s.base)
}

func TestVerbsRefuse(t *testing.T) {
	s := newSpot(t)
	victim := filepath.Join(testkit.Dir(t), "s-0123")
	if err := os.Mkdir(victim, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"dance"}, {"start"}, {"start", "a", "b"}, {"connect", "s-1"}, {"kill", "s-1", "x", "1"}, {"remove", "s-1", "0", "0", "--dirty"}, {"remove", "/etc", "0", "0"},
	} {
		if status, said := s.call(nil, args...); status != 2 || !strings.Contains(said, "trl-runner owns a session") {
			t.Errorf("%v: %d, %s", args, status, said)
		}
	}
	if status, said := s.call(nil, "start", "../x"); status != 1 || !strings.Contains(said, "is not the id of a session") {
		t.Errorf("%d, %s", status, said)
	}
	s.must(nil, "remove", victim, "0", "0")
	if _, err := os.Stat(victim); err != nil {
		t.Error("remove has removed a directory that is not that of a session")
	}
}

func TestCheckVerb(t *testing.T) {
	s := newSpot(t)
	var c link.Surroundings
	if s.must(&c, "check"); c.Protocol != link.Protocol || c.OS != runtime.GOOS || c.Arch != runtime.GOARCH || c.Version == "" {
		t.Errorf("%+v", c)
	}
	exe, _ := os.Executable()
	text, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	s.must(&c, "check", hex.EncodeToString(sum[:]))
	if status, said := s.call(nil, "check", strings.Repeat("0", 64)); status != 1 || !strings.Contains(said, hex.EncodeToString(sum[:])) {
		t.Errorf("with another hash: %d, %s", status, said)
	}
}

func TestInit(t *testing.T) {
	s := newSpot(t)
	cmd := s.command("init", spotID)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var r, again, second link.Report
	if err := json.NewDecoder(out).Decode(&r); err != nil {
		t.Fatal(err)
	}
	if s.must(&again, "start", spotID); again != r {
		t.Errorf("start finds %+v, want %+v", again, r)
	}
	// The second session is started by another process, as with docker exec.
	s.must(&second, "start", "s-00000000bb")
	conn, end := s.dial(r)
	s.create(conn, spotID)
	s.run(conn, "sleep 4322 & exec 3>&1; sleep 4323 &")
	end()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("init: %v", err)
	}
	for _, r := range []link.Report{r, second} {
		if info, ok := process.Stat(r.PID); ok && info.StartTime == r.Start && !info.Ended() {
			t.Errorf("runner %+v outlives init", r)
		}
	}
	if left := process.Marked(api.SessionMarker, spotID, 0); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	os.Remove(s.base)
}

// BenchmarkJoin measures how fast output passes through `trl-runner connect`.
func BenchmarkJoin(b *testing.B) {
	s := newSpot(b)
	var r link.Report
	s.must(&r, "start", spotID)
	defer func() { s.must(nil, append([]string{"remove"}, identity(r)...)...) }()
	conn, end := s.dial(r)
	defer end()
	before := limits
	limits.OutputBytes, limits.SessionOutput, limits.MemoryBytes = 256<<20, 256<<20, 256<<20
	s.create(conn, spotID)
	limits = before
	const size = 100 << 20
	var x api.ExecInfo
	if _, err := conn.Call(b.Context(), link.ExecStart.With(&link.ExecParams{ExecParams: api.ExecParams{Command: "head -c 104857600 /dev/zero"}}, nil, &x)); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	for b.Loop() {
		read := 0
		for after := int64(0); read < size; {
			var res link.ReadResult
			text, err := conn.Call(b.Context(), link.ExecRead.With(&link.ReadParams{ExecID: x.ExecID, AfterSeq: after, Limit: 1 << 20, Wait: true}, nil, &res))
			if err != nil {
				b.Fatal(err)
			}
			read += len(text)
			for _, c := range res.Chunks {
				after = c.Seq
			}
		}
	}
}
