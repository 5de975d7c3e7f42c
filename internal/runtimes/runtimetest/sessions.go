package runtimetest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/archive"
	"github.com/trl-dev/trl/internal/journal"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/testkit"
)

// sessionsLimit bounds each check with whole sessions.
const sessionsLimit = 3 * time.Minute

// RunSessions checks whole sessions with commands in a runtime, each in a new place: the runtime
// below a registry with a journal and an archive, as in a daemon.
func RunSessions(t *testing.T, newPlace func(t *testing.T) Place) {
	for _, c := range []struct {
		name  string
		needs func(Place) bool
		check func(d *registry)
	}{
		{"commands, their results and the environment", always, commands},
		{"secrets are shown to no other", func(p Place) bool { return p.Listing != nil }, secrets},
		{"the next daemon goes on in the middle of a command", always, midCommand},
		{"connections that are cut lose nothing", func(p Place) bool { return p.Cut != nil }, cutOften},
		{"sessions beside each other", always, sessionsBeside},
		{"an unreachable session is destroyed later", func(p Place) bool { return p.Lose != nil }, destroyedLater},
		{"a session ends with its place", func(p Place) bool { return p.End != nil }, endsWithPlace},
		{"many sessions, one after another, leave nothing", always, oneAfterAnother},
	} {
		t.Run(c.name, func(t *testing.T) {
			place := newPlace(t)
			if !c.needs(place) {
				t.Skip("does not apply to this place")
			}
			ctx, cancel := context.WithTimeout(t.Context(), sessionsLimit)
			defer cancel()
			d := &registry{T: t, ctx: ctx, place: place, dir: testkit.Dir(t), log: &testkit.Buffer{}}
			d.open()
			defer d.close()
			c.check(d)
		})
	}
}

func always(Place) bool { return true }

// registry is the part of a daemon that has sessions, which can be replaced.
type registry struct {
	*testing.T
	*session.Registry
	ctx   context.Context
	place Place
	dir   string
	log   *testkit.Buffer
	rt    session.Runtime
	leave func()
	last  session.Runner // the one that was started last
}

// at puts every session into one place, also if the registry asks for another.
type at struct {
	session.Runtime
	target session.Target
	last   *session.Runner // set to the runner that was started last
}

func (a at) Start(ctx context.Context, s session.Spec) (session.Runner, error) {
	if s.Beside == nil && a.target.Kind != "" {
		s.Target = a.target
	}
	r, err := a.Runtime.Start(ctx, s)
	*a.last = r
	return r, err
}

func (d *registry) open() {
	d.Helper()
	d.rt, d.leave = d.place.Open(d.T)
	logger := slog.New(slog.NewTextHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	events, err := journal.Open(filepath.Join(d.dir, "events.jsonl"), logger)
	if err != nil {
		d.Fatal(err)
	}
	past, err := archive.Open(archive.Config{Dir: filepath.Join(d.dir, "past"), KeyDir: filepath.Join(d.dir, "keys"), SpillDir: d.dir, Logger: logger})
	if err != nil {
		d.Fatal(err)
	}
	d.Registry = session.NewRegistry(session.Config{
		Runtimes: []session.Runtime{at{d.rt, d.place.Target, &d.last}}, Logger: logger, Journal: events, Archive: past,
		MaxSessions: 100, DefaultShell: "/bin/sh", KillGrace: time.Second, Retention: time.Minute,
		Limits: link.Limits{KillGraceS: 1, MaxQueued: 4, MaxStdinBytes: 1 << 20, OutputBytes: 64 << 20, SessionOutput: 64 << 20, ExecsKept: 10, ShellStartTimeout: 30, MemoryBytes: 1 << 20},
	})
	if err := d.Recover(d.ctx, false); err != nil {
		d.Fatal(err)
	}
}

// close ends all sessions, and checks that nothing is left of them.
func (d *registry) close() {
	d.Helper()
	d.Registry.Close(nil)
	(&daemon{T: d.T, ctx: d.ctx, rt: d.rt}).prune()
	d.leave()
	d.place.WantEmpty(d.T)
	if d.Failed() {
		d.Logf("log of the registry:\n%s", d.log.String())
	}
}

// replace is another daemon after this one was killed: its connections end, the sessions do not.
func (d *registry) replace() {
	d.Helper()
	d.Leave()
	d.leave()
	d.open()
}

func (d *registry) create(p api.SessionCreateParams) *session.Session {
	d.Helper()
	info, err := d.Create(d.ctx, p)
	if err != nil {
		d.Fatal(err)
	}
	return d.get(info.SessionID)
}

func (d *registry) get(id string) *session.Session {
	d.Helper()
	s, err := d.Get(id)
	if err != nil {
		d.Fatal(err)
	}
	return s
}

func (d *registry) run(s *session.Session, command string) api.ExecResult {
	d.Helper()
	r, err := s.Run(d.ctx, api.ExecParams{Command: command})
	if err != nil {
		d.Fatalf("%s: %v", command, err)
	}
	return r
}

func commands(d *registry) {
	s := d.create(api.SessionCreateParams{Name: "first", WorkingDir: "/", Env: map[string]string{"OF_SESSION": "one"}})
	r := d.run(s, `echo "$PWD $OF_SESSION $TERM [$SSH_CONNECTION$TRL_RUNNER_DIR]"; echo oops >&2; v=kept; exit 3`)
	if r.Stdout != "/ one dumb []\n" || r.Stderr != "oops\n" || r.ExitCode != 3 {
		d.Errorf("result %+v", r)
	}
	if r := d.run(s, `v=kept; cd /usr; command -v sh >/dev/null && echo found`); r.Stdout != "found\n" {
		d.Errorf("the place has no PATH: %+v", r)
	}
	if r := d.run(s, `echo "$PWD $v"`); r.Stdout != "/usr kept\n" {
		d.Errorf("state: %+v", r)
	}
	timeout := 0.5
	if r, err := s.Run(d.ctx, api.ExecParams{Command: "sleep 1000", TimeoutS: &timeout}); err != nil || !r.TimedOut || r.ExitCode != 124 {
		d.Errorf("timeout: %+v, %v", r, err)
	}
	// What a command leaves behind, in a process session of its own, ends with the session.
	if r := d.run(s, "(setsid sleep 4000 >/dev/null 2>&1 &) ; echo $$"); r.ExitCode != 0 {
		d.Errorf("setsid: %+v", r)
	}
	res, err := d.Destroy(d.ctx, "first", false)
	if err != nil || len(res.Killed) == 0 {
		d.Errorf("destroy: %+v, %v", res, err)
	}
	if _, err := d.Create(d.ctx, api.SessionCreateParams{Shell: "/nonexistent/sh"}); err == nil || api.AsError(err).Code != api.CodeShellNotFound {
		d.Errorf("a shell that the place does not have: %v", err)
	}
	p := d.create(api.SessionCreateParams{Kind: api.KindProgram, Command: []string{"sh", "-c", "echo done; exit 4"}})
	select {
	case <-p.Done():
	case <-d.ctx.Done():
		d.Fatal("the program does not end")
	}
	if info := p.Info(); info.ExitCode == nil || *info.ExitCode != 4 {
		d.Errorf("program: %+v", info)
	}
}

func secrets(d *registry) {
	const secret = "hunter2-4f1d"
	s := d.create(api.SessionCreateParams{Env: map[string]string{"OF_SESSION": secret}})
	r, err := s.Run(d.ctx, api.ExecParams{Command: `echo "$OF_SESSION $OF_COMMAND"`, Env: map[string]string{"OF_COMMAND": secret}})
	if err != nil || r.Stdout != secret+" "+secret+"\n" {
		d.Errorf("result %+v, %v", r, err)
	}
	for what, text := range map[string]string{"listing": d.place.Listing(), "log": d.log.String()} {
		if strings.Contains(text, secret) {
			d.Errorf("the %s shows the secret", what)
		}
	}
	for path := range d.files() {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(secret)) {
			d.Errorf("%s has the secret", path)
		}
	}
}

// files lists the files of the daemon.
func (d *registry) files() map[string]bool {
	list := map[string]bool{}
	_ = filepath.WalkDir(d.dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			list[path] = true
		}
		return nil
	})
	return list
}

// count is a command that prints lines for some time, and what it prints.
func count(lines int) (command string, output []byte) {
	for i := range lines {
		output = fmt.Appendf(output, "line %d of the output of one command\n", i)
	}
	return fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo \"line $i of the output of one command\"; i=$((i+1)); done; exit 7", lines), output
}

// read reads the output of a command to its end, piece by piece.
func (d *registry) read(s *session.Session, id string) (output []byte, status int) {
	d.Helper()
	for after := int64(0); ; {
		r, text, err := s.Read(d.ctx, link.ReadParams{ExecID: id, AfterSeq: after, Limit: 64 << 10, Wait: true})
		if session.IsUnreachable(err) {
			continue
		}
		if err != nil {
			d.Fatal(err)
		}
		err = r.EachChunk(id, text, func(c link.Chunk, data []byte) {
			if c.Gap {
				d.Errorf("output was lost: %+v", c)
			}
			output = append(output, data...)
			after = c.Seq
		})
		if err != nil {
			d.Fatal(err)
		}
		if r.Outcome != nil {
			return output, r.Outcome.ExitCode
		}
	}
}

func (d *registry) wantOutput(got, want []byte, status int) {
	d.Helper()
	if sha256.Sum256(got) != sha256.Sum256(want) || status != 7 {
		d.Errorf("got %d bytes and status %d, want %d bytes and 7", len(got), status, len(want))
	}
}

func midCommand(d *registry) {
	s := d.create(api.SessionCreateParams{Name: "build"})
	command, want := count(20000)
	x, err := s.Start(d.ctx, api.ExecParams{Command: "sleep 0.2; " + command})
	if err != nil {
		d.Fatal(err)
	}
	for range 3 {
		d.replace()
		s = d.get("build")
	}
	got, status := d.read(s, x.ExecID)
	d.wantOutput(got, want, status)
	if info, err := s.ExecInfo(d.ctx, x.ExecID); err != nil || info.StdoutBytes != int64(len(want)) {
		d.Errorf("info %+v, %v", info, err)
	}
}

func cutOften(d *registry) {
	const wanted = 20
	random := rand.New(rand.NewPCG(1, 2))
	s := d.create(api.SessionCreateParams{})
	command, want := count(15000)
	cuts := 0
	for cuts < wanted { // a command may end before the first cut
		x, err := s.Start(d.ctx, api.ExecParams{Command: command})
		if err != nil {
			d.Fatal(err)
		}
		reading, stop := context.WithCancel(d.ctx)
		var cutting sync.WaitGroup
		cutting.Go(func() {
			for reading.Err() == nil {
				if s.Reach(reading) != nil {
					continue // a slow place would never connect if it were cut while it tries
				}
				select {
				case <-reading.Done():
				case <-time.After(time.Duration(random.Int64N(int64(150 * time.Millisecond)))):
					d.place.Cut()
					cuts++
				}
			}
		})
		got, status := func() ([]byte, int) {
			defer cutting.Wait()
			defer stop()
			return d.read(s, x.ExecID)
		}()
		d.wantOutput(got, want, status)
	}
	// A command whose request meets a broken connection runs once.
	before := s.Info().CommandCount
	for i := range 5 {
		d.place.Cut()
		if r := d.run(s, fmt.Sprintf("echo %d", i)); r.Stdout != fmt.Sprintln(i) {
			d.Errorf("after a cut: %+v", r)
		}
	}
	if n := s.Info().CommandCount - before; n != 5 {
		d.Errorf("5 commands were run %d times", n)
	}
}

func sessionsBeside(d *registry) {
	first := d.create(api.SessionCreateParams{Name: "first"})
	second := d.create(api.SessionCreateParams{Name: "second", Beside: "first"})
	d.run(first, "mark=1; sleep 4004 &")
	if r := d.run(second, `echo "[$mark]"`); r.Stdout != "[]\n" {
		d.Errorf("the sessions share their shell: %+v", r)
	}
	if a, b := first.Info().Place, second.Info().Place; a != nil && (b == nil || *a != *b) {
		d.Errorf("places %+v and %+v", a, b)
	}
	if _, err := d.Destroy(d.ctx, "first", false); err != nil {
		d.Error(err)
	}
	if r := d.run(second, "echo still here"); r.Stdout != "still here\n" {
		d.Errorf("after the end of the first session: %+v", r)
	}
	third := d.create(api.SessionCreateParams{Name: "third", Beside: "second"})
	d.replace()
	for _, id := range []string{second.ID(), third.ID()} {
		if r := d.run(d.get(id), "echo still here"); r.Stdout != "still here\n" {
			d.Errorf("with the next daemon: %+v", r)
		}
		if _, err := d.Destroy(d.ctx, id, false); err != nil {
			d.Error(err)
		}
	}
	(&daemon{T: d.T, ctx: d.ctx, rt: d.rt}).prune()
	d.place.WantEmpty(d.T)
}

func destroyedLater(d *registry) {
	for _, force := range []bool{true, false} {
		s := d.create(api.SessionCreateParams{Name: "lost"})
		d.run(s, "(setsid sleep 4001 >/dev/null 2>&1 &) ; sleep 4002 &")
		restore := d.place.Lose()
		began := time.Now()
		if _, err := d.Destroy(d.ctx, "lost", force); err != nil {
			d.Error(err)
		}
		if took := time.Since(began); took > 25*time.Second {
			d.Errorf("destroy took %s", took)
		}
		if s.Info().State != api.SessionTerminated {
			d.Errorf("state %s", s.Info().State)
		}
		d.replace() // the removal is for a later daemon
		if _, err := d.Get("lost"); !errors.Is(err, api.ErrSessionNotFound) {
			d.Errorf("the next daemon has the session: %v", err)
		}
		restore()
		(&daemon{T: d.T, ctx: d.ctx, rt: d.rt}).prune()
		d.place.WantEmpty(d.T)
	}
}

func endsWithPlace(d *registry) {
	s := d.create(api.SessionCreateParams{})
	type end struct {
		api.ExecResult
		err error
	}
	ended := make(chan end, 1)
	go func() {
		r, err := s.Run(d.ctx, api.ExecParams{Command: "sleep 4003"})
		ended <- end{r, err}
	}()
	testkit.Eventually(d.T, "the command runs", func() bool { return s.Info().State == api.SessionRunning })
	cause := d.place.End(d.last)
	select {
	case <-s.Done():
	case <-d.ctx.Done():
		d.Fatal("the session does not end")
	}
	if got := s.Info().Cause; !strings.Contains(got, cause) {
		d.Errorf("cause %q, want %q", got, cause)
	}
	// A place that lets its processes end gives the command a result.
	if e := <-ended; e.err == nil && !e.Cancelled || e.err != nil && (!errors.Is(e.err, api.ErrSessionTerminated) || !strings.Contains(e.err.Error(), cause)) {
		d.Errorf("the command: %+v", e)
	}
}

func oneAfterAnother(d *registry) {
	cycles := cmp.Or(d.place.Cycles, 100)
	if testing.Short() {
		cycles = 5
	}
	before := 0
	for i := range cycles {
		if i == 3 { // what is opened once is open
			before = descriptors()
		}
		s := d.create(api.SessionCreateParams{Name: fmt.Sprint("n", i)})
		if i%10 == 0 {
			if r := d.run(s, "echo $((6*7))"); r.Stdout != "42\n" {
				d.Errorf("%+v", r)
			}
		}
		if _, err := d.Destroy(d.ctx, s.ID(), i%2 == 0); err != nil {
			d.Fatal(err)
		}
	}
	(&daemon{T: d.T, ctx: d.ctx, rt: d.rt}).prune()
	d.place.WantEmpty(d.T)
	// The last connections may still be closing.
	const slack = 4
	testkit.Eventually(d.T, "the descriptors are closed", func() bool { return descriptors() <= before+slack })
}

// descriptors counts the open files of this process.
func descriptors() int {
	list, _ := os.ReadDir("/dev/fd")
	return len(list)
}
