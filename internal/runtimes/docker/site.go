package docker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/runtimes/remote"
)

// record describes a container to a later daemon.
type record struct {
	Address address       `json:"engine"`
	Kind    api.PlaceKind `json:"kind"`
	ID      string        `json:"id"`
	Name    string        `json:"name"`
	Image   string        `json:"image"`
	User    string        `json:"user,omitempty"`
	Host    string        `json:"host,omitempty"`
	OS      string        `json:"os"`
	Arch    string        `json:"arch"`
	Made    bool          `json:"made,omitempty"`    // by TRL, which removes it
	Started string        `json:"started,omitempty"` // when the engine started it, in its words
	Runner  string        `json:"runner,omitempty"`  // path of the runner in it
}

// site is one container.
type site struct {
	e        *engine
	restored bool // from a record

	mu       sync.Mutex
	r        record
	first    *bufio.Reader // stdout of the first process until the report is read; nil otherwise
	output   *stream       // what first reads from
	attached *client.HijackedResponse
	fresh    bool // the container was just started: nothing has happened to it yet
}

var (
	_ remote.Site        = (*site)(nil)
	_ remote.Starter     = (*site)(nil)
	_ remote.LimitSetter = (*site)(nil)
)

func (s *site) read() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r
}

// ID is that of the container.
func (s *site) ID() string { return s.read().ID }

// Record contains no secret: the variables of a session go over its link.
func (s *site) Record() json.RawMessage {
	data, err := json.Marshal(s.read())
	if err != nil {
		panic(err) // strings and booleans alone
	}
	return data
}

// Info describes the container.
func (s *site) Info() api.PlaceInfo {
	r := s.read()
	return api.PlaceInfo{Kind: r.Kind, Container: r.Name, Image: r.Image, Host: r.Host, OS: r.OS, Arch: r.Arch}
}

// start starts a container that was created, and joins the output of its first process before
// that, so that nothing of it is missed. The engine keeps no log of it.
func (s *site) start(ctx context.Context) error {
	s.close()
	joined, err := s.e.ContainerAttach(ctx, s.r.ID, client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err == nil {
		s.mu.Lock()
		s.attached = &joined.HijackedResponse
		s.output = &stream{from: s.attached.Reader}
		s.first = bufio.NewReader(s.output)
		s.fresh = true
		s.mu.Unlock()
	} else if s.e.broken(err) != nil {
		return err
	}
	// Podman prepares a container when it is joined, and the client hides why that went wrong. The
	// start says it, or goes well without a report: the runner is found then.
	_, err = s.e.ContainerStart(ctx, s.r.ID, client.ContainerStartOptions{})
	return err
}

// close leaves the output of the first process.
func (s *site) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attached != nil {
		s.attached.Close()
		s.attached, s.first = nil, nil
	}
}

// Started returns the report that the first process prints about the runner of the first session.
func (s *site) Started(ctx context.Context) (remote.Report, bool, error) {
	var report remote.Report
	s.mu.Lock()
	first, output, attached := s.first, s.output, s.attached
	s.mu.Unlock()
	if first == nil {
		return report, false, nil
	}
	defer s.close()
	stop := context.AfterFunc(ctx, attached.Close)
	defer stop()
	inspected := make(chan error, 1)
	go func() { inspected <- s.noteStart(ctx) }()
	line, err := first.ReadBytes('\n')
	if noted := <-inspected; err == nil {
		err = noted
	}
	if err == nil {
		err = json.Unmarshal(line, &report)
	}
	if err == nil {
		return report, true, nil
	}
	if ctx.Err() != nil {
		return report, false, fmt.Errorf("container %s: %w", s.r.Name, context.Cause(ctx))
	}
	return report, false, s.notStarted(ctx, err, string(line), output)
}

// notStarted is the error about a first process that printed no report: it has ended, or the
// connection broke.
func (s *site) notStarted(ctx context.Context, err error, line string, output *stream) error {
	what := "container " + s.r.Name
	said := strings.TrimSpace(line + output.stderr.String())
	c, failed := s.e.ContainerInspect(ctx, s.r.ID, client.ContainerInspectOptions{})
	if failed != nil {
		return s.e.fails(ctx, what, failed)
	}
	if said == "" && c.Container.State.Error != "" {
		said = c.Container.State.Error
	}
	if said == "" {
		said = err.Error()
		if errors.Is(err, io.EOF) {
			said = fmt.Sprintf("it exited with status %d and printed nothing", c.Container.State.ExitCode)
		}
	}
	return s.e.startFails(ctx, what+": the runner did not start", errors.New(said))
}

// noteStart notes when the engine started the container: one that is restarted later has lost its
// sessions.
func (s *site) noteStart(ctx context.Context) error {
	c, err := s.e.ContainerInspect(ctx, s.r.ID, client.ContainerInspectOptions{})
	if err != nil {
		return s.e.fails(ctx, "container "+s.r.Name, err)
	}
	s.mu.Lock()
	s.r.Started = c.Container.State.StartedAt
	s.mu.Unlock()
	return nil
}

// Exec starts a program in the container, as the user of the place.
func (s *site) Exec(ctx context.Context, argv []string) (remote.Process, error) {
	s.mu.Lock()
	fresh := s.fresh
	s.fresh = false
	s.mu.Unlock()
	if !fresh {
		if err := s.alive(ctx); err != nil {
			return nil, err
		}
	}
	r := s.read()
	p, err := s.e.exec(ctx, r.ID, r.User, argv)
	if err != nil {
		if ended := s.alive(ctx); errors.As(ended, new(*remote.EndedError)) {
			return nil, ended
		}
		return nil, s.e.fails(ctx, "container "+r.Name, err)
	}
	go s.cutAfter(p)
	return p, nil
}

// cutPause is how long a program runs before its container is watched, so that short ones cost nothing,
// and how long its connection may stay open after the end of the container.
const cutPause = 5 * time.Second

// cutAfter closes the connection to a program when its container has ended and the last bytes had their
// time, unless the connection is closed first. It usually ends by itself. With gVisor, the engine does
// not close it when the container is killed.
func (s *site) cutAfter(p *program) {
	id := s.read().ID
	for {
		select {
		case <-time.After(cutPause):
		case <-p.open.Done():
			return
		}
		if errors.As(s.alive(p.open), new(*remote.EndedError)) {
			_ = p.Close()
			return
		}
		// An error tells as little as the end of the wait: the next question decides. One of the two
		// always comes, also after Close.
		wait := s.e.ContainerWait(p.open, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
		select {
		case <-wait.Result:
		case <-wait.Error:
		}
	}
}

// alive returns an EndedError if the container has ended, or was restarted since the session
// was created.
func (s *site) alive(ctx context.Context) error {
	r := s.read()
	c, err := s.e.ContainerInspect(ctx, r.ID, client.ContainerInspectOptions{})
	if cerrdefs.IsNotFound(err) {
		return &remote.EndedError{Cause: "container " + r.Name + " was removed"}
	} else if err != nil {
		return s.e.fails(ctx, "container "+r.Name, err)
	}
	state := c.Container.State
	switch {
	case state.Paused:
		return api.Errorf(api.CodeRuntimeUnavailable, "container %s is paused: docker unpause %s", r.Name, r.Name)
	case !state.Running || state.Restarting:
		return &remote.EndedError{Cause: "container " + r.Name + " " + ending(*state, r.Made)}
	case r.Started != "" && state.StartedAt != r.Started:
		return &remote.EndedError{Cause: "container " + r.Name + " was restarted"}
	}
	return nil
}

// ending says how a container ended. The first process of a container that TRL has made exits with
// status 0 when the container is stopped.
func ending(s container.State, made bool) string {
	const signal = 128
	text := fmt.Sprintf("has exited with status %d", s.ExitCode)
	switch {
	case s.OOMKilled:
		text = "was OOM-killed"
	case s.ExitCode == signal+9:
		text = "was killed"
	case s.ExitCode == signal+15, s.ExitCode == 0 && made:
		text = "was stopped"
	}
	if s.Error != "" {
		text += ": " + s.Error
	}
	return text
}

// Remove removes the container if TRL has made it.
func (s *site) Remove(ctx context.Context) error {
	s.close()
	r := s.read()
	if !r.Made {
		return nil
	}
	return s.e.fails(ctx, "container "+r.Name, s.e.remove(ctx, r.ID))
}

// remove removes a container with its anonymous volumes. It returns when the container is removed.
func (e *engine) remove(ctx context.Context, id string) error {
	_, err := e.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if cerrdefs.IsConflict(err) { // another request is removing it
		wait := e.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
		select {
		case <-wait.Result:
			err = nil
		case err = <-wait.Error:
		}
	}
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// Limits returns the limits of a session that its own container enforces.
func (s *site) Limits() []api.EnforcedLimit {
	if !s.r.Made {
		return nil
	}
	by := string(api.PlaceDocker)
	return []api.EnforcedLimit{{Limit: api.LimitCPUs, Mechanism: by}, {Limit: api.LimitMemory, Mechanism: by}, {Limit: api.LimitPids, Mechanism: by}}
}

// SetLimit changes a limit of the container. An engine takes 0 for no change, so that without a limit
// the container gets the most that there is.
func (s *site) SetLimit(ctx context.Context, name string, value float64) error {
	r := s.read()
	what := "container " + r.Name
	var to container.Resources
	switch {
	case value > 0:
		limit(&to, name, value)
	case name == api.LimitCPUs:
		info, err := s.e.Info(ctx, client.InfoOptions{})
		if err != nil {
			return s.e.fails(ctx, what, err)
		}
		to.NanoCPUs = int64(info.Info.NCPU) * 1e9
	case name == api.LimitMemory:
		to.Memory, to.MemorySwap = math.MaxInt64/2, math.MaxInt64 // as much memory, and as much swap
	case name == api.LimitPids:
		to.PidsLimit = new(int64(-1))
	}
	_, err := s.e.ContainerUpdate(ctx, r.ID, client.ContainerUpdateOptions{Resources: &to})
	if err == nil || ctx.Err() != nil || cerrdefs.IsNotFound(err) || s.e.broken(err) != nil {
		return s.e.fails(ctx, what, err)
	}
	reason := "the engine refuses the change: " + strings.Join(strings.Fields(plain(err)), " ")
	refusal := api.Errorf(api.CodeLimitUnavailable, "limit %s: %s", name, reason)
	refusal.Details = map[string]any{"limits": map[string]any{name: reason}}
	return refusal
}
