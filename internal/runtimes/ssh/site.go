package ssh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/runtimes/runners"
	"github.com/trl-dev/trl/internal/session"
)

// site is another machine. It implements remote.Site.
type site struct {
	c *connection

	mu    sync.Mutex
	facts facts // guarded by mu; complete after Install
}

// record is a site in the record of a session.
type record struct {
	target
	facts
}

// ID returns the destination and the options.
func (s *site) ID() string { return name + ":" + s.c.t.key() }

// Record describes the machine, and its boot: a session does not survive a restart of the machine.
func (s *site) Record() json.RawMessage {
	text, err := json.Marshal(record{s.c.t, s.about()})
	if err != nil {
		panic(err) // strings always have a form in JSON
	}
	return text
}

// Info describes the machine.
func (s *site) Info() api.PlaceInfo {
	f := s.about()
	return api.PlaceInfo{Kind: api.PlaceSSH, Host: s.c.t.Destination, OS: f.OS, Arch: f.Arch}
}

func (s *site) about() facts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.facts
}

// Remove does nothing: TRL did not make the machine.
func (s *site) Remove(context.Context) error { return nil }

// Exec starts a program. If that is a runner which is no longer in the cache of the machine, it is
// brought there again.
func (s *site) Exec(ctx context.Context, argv []string) (remote.Process, error) {
	p, there, err := s.exec(ctx, argv)
	if err != nil {
		return nil, err
	}
	if !there && strings.HasPrefix(path.Base(argv[0]), runners.Name+"-") {
		s.c.mu.Lock()
		s.c.installed = installed{}
		s.c.mu.Unlock()
		runner, err := s.Install(ctx, func(api.PlaceProgress) {})
		if err != nil {
			return nil, err
		}
		p, there, err = s.exec(ctx, append([]string{runner}, argv[1:]...))
		if err != nil {
			return nil, err
		}
	}
	if !there {
		return nil, api.Errorf(api.CodeRuntimeUnavailable, "ssh %s: %s: there is no such program", s.c.t.Destination, argv[0])
	}
	return p, nil
}

// exec starts a program. If the machine has no such program, it returns a nil program and false,
// without an error.
func (s *site) exec(ctx context.Context, argv []string) (p *program, there bool, err error) {
	want := s.about()
	p, words, err := s.c.run(ctx, execScript(want.Boot, argv))
	if err != nil {
		return nil, false, err
	}
	err = s.compare(want, facts{Boot: word(words, 0), Machine: word(words, 1)})
	if there = word(words, 2) == "there"; err != nil || !there {
		_ = p.Close()
		return nil, false, err
	}
	return p, true, nil
}

// compare says whether this is the machine that the session was started on, and still the same boot.
func (s *site) compare(want, got facts) error {
	host := s.c.t.Destination
	switch {
	case want.Boot == "" || got.Boot == "" || want.Boot == got.Boot:
		return nil
	case want.Machine != "" && got.Machine != "" && want.Machine != got.Machine:
		// The name may stand for several machines, or the machine was replaced. The session may
		// still live.
		return api.Errorf(api.CodeRuntimeUnavailable, "ssh %s: a different machine answers than the one where the session lives; correct its address in ssh_config, or destroy the session", host).Because("another_machine")
	default:
		return &remote.EndedError{Cause: "machine " + host + " has been restarted"}
	}
}

// goos and goarch translate uname -s and uname -m.
var (
	goos   = map[string]string{"Linux": "linux", "Darwin": "darwin"}
	goarch = map[string]string{"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
)

// probe begins installScript and returns what the machine says about itself.
func (c *connection) probe(ctx context.Context) (*program, facts, error) {
	p, words, err := c.run(ctx, installScript)
	if err != nil {
		return nil, facts{}, err
	}
	f := facts{Boot: word(words, 0), Machine: word(words, 1), OS: goos[word(words, 2)], Arch: goarch[word(words, 3)]}
	if f.OS == "" || f.Arch == "" {
		_ = p.Close()
		return nil, facts{}, api.Errorf(api.CodeRuntimeUnavailable, "ssh %s: the machine is %q on %q; TRL has runners for Linux and macOS on x86_64 and arm64",
			c.t.Destination, word(words, 2), word(words, 3))
	}
	return p, f, nil
}

// Install brings the runner to the machine. While a master lives, the answer is remembered.
func (s *site) Install(ctx context.Context, progress func(api.PlaceProgress)) (string, error) {
	done, err := s.c.install(ctx, progress)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.facts.Boot == "" {
		s.facts = done.facts
	}
	return done.path, nil
}

func (c *connection) install(ctx context.Context, progress func(api.PlaceProgress)) (installed, error) {
	c.mu.Lock()
	known := c.installed
	if len(c.masters) == 0 {
		known = installed{} // the next connection may reach a machine that was restarted
	}
	c.mu.Unlock()
	if known.path != "" {
		return known, nil
	}
	p, f, err := c.probe(ctx)
	if err != nil {
		return installed{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	file, err := p.install(f, progress)
	if !stop() && err != nil {
		err = context.Cause(ctx)
	}
	_ = p.Close()
	if err != nil {
		return installed{}, err
	}
	done := installed{file, f}
	c.mu.Lock()
	c.installed = done
	c.mu.Unlock()
	return done, nil
}

// install answers installScript.
func (p *program) install(f facts, progress func(api.PlaceProgress)) (string, error) {
	host := p.m.c.t.Destination
	runner, err := runners.Find(f.OS, f.Arch)
	if err != nil {
		return "", err
	}
	answer, what := "", ""
	if _, err = fmt.Fprintf(p, "%s\n%s\n", runner.FileName(), runner.SHA256); err == nil {
		answer, what, err = p.answer()
	}
	if err == nil && answer == "need" {
		if err := p.upload(runner, progress); err != nil {
			return "", err
		}
		// Without an answer the connection broke, which is what the caller learns below.
		answer, what, _ = p.answer()
	}
	switch answer {
	case "have":
		return what, nil
	case "none":
		return "", api.Errorf(api.CodeRuntimeUnavailable, "ssh %s: no directory there is writable and allows programs to run%s; set XDG_CACHE_HOME there to one that does", host, what)
	case "fail":
		return "", api.Errorf(api.CodeRuntimeUnavailable, "ssh %s: the runner cannot be stored there: %s", host, lastLines(what))
	}
	exit, err := p.Wait()
	if err != nil {
		return "", err
	}
	return "", api.Errorf(api.CodeRuntimeUnavailable, "ssh %s: the runner cannot be stored there: /bin/sh ended with status %d: %s", host, exit.Status, lastLines(exit.Stderr))
}

func (p *program) answer() (word, rest string, err error) {
	line, err := p.line()
	word, rest, _ = strings.Cut(line, " ")
	return word, rest, err
}

// upload writes the runner. An error of writing is that of the other side, whose answer says more.
func (p *program) upload(runner runners.Program, progress func(api.PlaceProgress)) error {
	content, err := runner.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	report := api.PlaceProgress{
		Step: "upload", Total: runner.Size,
		Message: fmt.Sprintf("copying the runner for %s/%s to %s", runner.OS, runner.Arch, p.m.c.t.Destination),
	}
	progress(report)
	buf := make([]byte, 64<<10)
	last := time.Now()
	for {
		n, err := content.Read(buf)
		if _, writeErr := p.Write(buf[:n]); writeErr != nil {
			return nil
		}
		report.Done += int64(n)
		if time.Since(last) > 100*time.Millisecond || err != nil {
			last = time.Now()
			progress(report)
		}
		if errors.Is(err, io.EOF) {
			return p.CloseWrite()
		}
		if err != nil {
			return err
		}
	}
}

// runnerPatience is how long a check waits for the runner there.
const runnerPatience = 3 * time.Second

// Check connects to the machine and asks what it is.
func (d *Driver) Check(ctx context.Context, t session.Target) api.RuntimeCheckResult {
	r := api.RuntimeCheckResult{Runtime: t.Word, Kind: api.PlaceSSH, Enforced: []string{}}
	err := d.check(ctx, t, &r)
	r.Reachable = err == nil
	if err != nil {
		r.Why = err.Error()
	}
	return r
}

func (d *Driver) check(ctx context.Context, t session.Target, r *api.RuntimeCheckResult) error {
	to, err := newTarget(t)
	if err != nil {
		return err
	}
	p, f, err := d.connection(to).probe(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	defer stop()
	r.OS, r.Arch = f.OS, f.Arch
	runner, err := runners.Find(f.OS, f.Arch)
	if err != nil {
		return err
	}
	asked := time.Now()
	if _, err := io.WriteString(p, "ping\n"); err != nil {
		return unavailable(to.Destination, "the connection broke", err.Error())
	}
	if _, err := p.line(); err != nil {
		return unavailable(to.Destination, "the connection broke", err.Error())
	}
	r.LatencyMS = float64(time.Since(asked).Microseconds()) / 1000
	// The runner knows what it can use there, if an earlier session has brought it. Without its answer, the
	// machine is reachable nevertheless.
	impatient := time.AfterFunc(runnerPatience, func() { _ = p.Close() })
	defer impatient.Stop()
	line := ""
	if _, err = fmt.Fprintf(p, "%s\n%s\n", runner.FileName(), runner.SHA256); err == nil {
		line, _ = p.line()
	}
	var there struct{ Enforced []string }
	switch {
	case json.Unmarshal([]byte(line), &there) == nil:
		r.Enforced = there.Enforced
	case f.OS == "linux": // every kernel on which the runner can start has it
		r.Enforced = append(r.Enforced, "subreaper")
	}
	return nil
}
