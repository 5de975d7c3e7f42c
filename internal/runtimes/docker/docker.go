// Package docker puts sessions into containers of Docker and Podman: into new ones, which it removes,
// and into those that exist already, which it keeps.
package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/runtimes/runners"
	"github.com/trl-dev/trl/internal/session"
)

// Driver is the remote.Driver for containers. It is safe for concurrent use.
type Driver struct {
	spawn  func(process.Spec) (*process.Process, error)
	forget func(pid int)

	mu      sync.Mutex
	engines map[address]*engine // engines that were used
}

var _ remote.Driver = (*Driver)(nil)

// Config is what a driver needs.
type Config struct {
	// Spawn starts a child of this process, and Forget is called when it has been reaped; see
	// host.Runtime. The children are the programs that the docker configuration names for
	// credentials.
	Spawn  func(process.Spec) (*process.Process, error)
	Forget func(pid int)
}

// New returns the driver. It contacts no engine.
func New(c Config) *Driver {
	return &Driver{spawn: c.Spawn, forget: c.Forget, engines: map[address]*engine{}}
}

// Name is the name of the runtime in records.
func (d *Driver) Name() string { return "docker" }

// Kinds are docker, a new container, and container, an existing one.
func (d *Driver) Kinds() []api.PlaceKind {
	return []api.PlaceKind{api.PlaceDocker, api.PlaceContainer}
}

// Close closes the connections to the engines that are idle.
func (d *Driver) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.engines {
		_ = e.Client.Close()
	}
}

// engine returns the engine that a place names, or the default one.
func (d *Driver) engine(named string) (*engine, error) {
	a, err := findEngine(named, d.surroundings())
	if err != nil {
		return nil, err
	}
	return d.engineAt(a)
}

func (d *Driver) engineAt(a address) (*engine, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.engines[a]; e != nil {
		return e, nil
	}
	e, err := newEngine(a)
	if err == nil {
		d.engines[a] = e
	}
	return e, err
}

// Check asks the engine for its version, and for the image or the container.
func (d *Driver) Check(ctx context.Context, t session.Target) api.RuntimeCheckResult {
	r := api.RuntimeCheckResult{Runtime: t.Word, Kind: t.Kind, Enforced: []string{}}
	if err := d.check(ctx, t, &r); err != nil {
		r.Why = api.AsError(err).Message
	} else {
		r.Reachable = true
	}
	return r
}

func (d *Driver) check(ctx context.Context, t session.Target, r *api.RuntimeCheckResult) error {
	e, err := d.engine(t.Options.Engine)
	if err != nil {
		return err
	}
	info, err := e.Info(ctx, client.InfoOptions{})
	if err != nil {
		return e.fails(ctx, "engine "+e.Host, err)
	}
	asked := time.Now()
	if _, err := e.Ping(ctx, client.PingOptions{}); err != nil {
		return e.fails(ctx, "engine "+e.Host, err)
	}
	r.LatencyMS = float64(time.Since(asked).Microseconds()) / 1000
	r.OS, r.Arch = info.Info.OSType, goArch(info.Info.Architecture)
	r.Engine = "docker " + info.Info.ServerVersion
	if v, err := e.ServerVersion(ctx, client.ServerVersionOptions{}); err == nil {
		for _, c := range v.Components {
			if strings.HasPrefix(c.Name, "Podman") {
				r.Engine = "podman " + c.Version
			}
		}
	}
	for _, option := range info.Info.SecurityOptions {
		name, _, _ := strings.Cut(strings.TrimPrefix(option, "name="), ",")
		r.Enforced = append(r.Enforced, name)
	}
	if t.Kind == api.PlaceContainer {
		s, err := d.find(ctx, e, t.Options)
		if err == nil {
			r.OS, r.Arch = s.r.OS, s.r.Arch
		}
		return err
	}
	r.Enforced = append(r.Enforced, "no-new-privileges")
	if len(t.Options.Capabilities) == 0 {
		r.Enforced = append(r.Enforced, "no-capabilities")
	}
	slices.Sort(r.Enforced)
	r.Enforced = slices.Compact(r.Enforced)
	if t.Options.Image == "" {
		return nil // the kind alone, not a place
	}
	w, err := wishes(t.Options)
	if err != nil {
		return err
	}
	image, err := e.picture(ctx, w)
	switch {
	case err == nil:
		r.OS, r.Arch = image.os, image.arch
		_, err = runners.Find(image.os, image.arch)
		return err
	case cerrdefs.IsNotFound(err) && w.pull == pullNever:
		return invalid("image", "image %q: %s", w.image, plain(err))
	case cerrdefs.IsNotFound(err):
		return nil // Open will pull it
	}
	return e.fails(ctx, "image "+w.image, err)
}

// Open makes a container and starts the runner in it, or finds a container.
func (d *Driver) Open(ctx context.Context, o remote.Opening) (remote.Site, error) {
	e, err := d.engine(o.Target.Options.Engine)
	if err != nil {
		return nil, err
	}
	if o.Target.Kind == api.PlaceContainer {
		s, err := d.find(ctx, e, o.Target.Options)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	s, err := d.make(ctx, e, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// make makes a container whose first process is the runner of the session.
func (d *Driver) make(ctx context.Context, e *engine, o remote.Opening) (_ *site, err error) {
	w, err := wishes(o.Target.Options)
	w.limits = o.Limits
	if err != nil {
		return nil, err
	}
	image, err := d.image(ctx, e, w, o.Progress)
	if err != nil {
		return nil, err
	}
	if image.checked {
		// The image's health check is about its entry point, which does not run here.
		w.config.Healthcheck = &container.HealthConfig{Test: []string{"NONE"}}
	}
	p, err := runners.Find(image.os, image.arch)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", w.image, err)
	}
	s := &site{e: e, r: record{
		Address: e.address, Kind: api.PlaceDocker, Name: "trl-" + o.SessionID, Image: w.image, User: w.config.User,
		Host: e.host, OS: image.os, Arch: image.arch, Made: true, Runner: runnerPath,
	}}
	labels := map[string]string{labelDaemon: o.Daemon, labelSession: o.SessionID}
	what := "container " + s.r.Name
	made, err := e.ContainerCreate(ctx, w.creation(s.r.Name, volumeName(p), p.SHA256, labels, []string{runnerPath, "init", o.SessionID}))
	if err != nil {
		if cerrdefs.IsInvalidArgument(err) {
			return nil, api.Errorf(api.CodeInvalidParams, "%s: %s", what, plain(err))
		}
		return nil, e.fails(ctx, what, err)
	}
	s.r.ID = made.ID
	defer func() {
		if err != nil {
			s.close()
			e.discard(made.ID)
		}
	}()
	for again := false; ; again = true {
		if !e.known(volumeName(p)) {
			if err = e.fill(ctx, made.ID, w, p, labels, o.Progress); err != nil {
				return nil, fmt.Errorf("%s: %w", what, err)
			}
		}
		err = s.start(ctx)
		if err == nil {
			return s, nil
		}
		if again || !strings.Contains(err.Error(), runnerPath) {
			return nil, e.startFails(ctx, what, err)
		}
		// The volume was removed since, or another daemon is writing to it.
		e.setKnown(volumeName(p), false)
	}
}

// startFails is the error about a container that did not start.
func (e *engine) startFails(ctx context.Context, what string, err error) error {
	if text := plain(err); strings.Contains(text, "exec format error") {
		return api.Errorf(api.CodeRuntimeUnavailable, "%s: the engine cannot run programs of this platform: %s; install QEMU's binfmt handlers there, or choose another platform", what, text)
	}
	return e.fails(ctx, what, err)
}

// find finds an existing container, which must be running.
func (d *Driver) find(ctx context.Context, e *engine, o api.PlaceOptions) (*site, error) {
	if o.Container == "" {
		return nil, invalid("container", "the name of the container is missing, as in container:build-1")
	}
	c, err := e.ContainerInspect(ctx, o.Container, client.ContainerInspectOptions{})
	if cerrdefs.IsNotFound(err) {
		return nil, invalid("container", "container %q: not found; docker ps lists the containers", o.Container)
	} else if err != nil {
		return nil, e.fails(ctx, "container "+o.Container, err)
	}
	s := &site{e: e, r: record{
		Address: e.address, Kind: api.PlaceContainer, ID: c.Container.ID, Name: strings.TrimPrefix(c.Container.Name, "/"),
		Image: c.Container.Config.Image, User: o.User, Host: e.host, Started: c.Container.State.StartedAt,
	}}
	switch state := c.Container.State; {
	case state.Paused:
		return nil, api.Errorf(api.CodeConflict, "container %q is paused: docker unpause %s", o.Container, s.r.Name)
	case !state.Running || state.Restarting:
		return nil, api.Errorf(api.CodeConflict, "container %q is not running (it is %s): docker start %s", o.Container, state.Status, s.r.Name)
	}
	if i, err := e.ImageInspect(ctx, c.Container.Image); err == nil {
		s.r.OS, s.r.Arch = i.Os, goArch(i.Architecture)
	} else if info, err := e.Info(ctx, client.InfoOptions{}); err == nil { // the image was removed
		s.r.OS, s.r.Arch = info.Info.OSType, goArch(info.Info.Architecture)
	} else {
		return nil, e.fails(ctx, "architecture of container "+o.Container, err)
	}
	return s, nil
}

// Restore returns the place of a record, without contacting its engine.
func (d *Driver) Restore(data json.RawMessage) (remote.Site, error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("record of a container: %w", err)
	}
	if r.ID == "" || r.Address.Host == "" {
		return nil, errors.New("record of a container: it has no id or no engine")
	}
	e, err := d.engineAt(r.Address)
	if err != nil {
		return nil, err
	}
	return &site{e: e, r: r, restored: true}, nil
}

// Sweep removes the containers of sessions that do not exist, and the volumes with other versions of
// the runner that no container uses.
func (d *Driver) Sweep(ctx context.Context, daemon string, keep func(sessionID string) bool) ([]string, error) {
	var removed []string
	var failed error
	d.mu.Lock()
	used := maps.Clone(d.engines)
	d.mu.Unlock()
	for _, e := range used {
		names, err := e.sweep(ctx, daemon, keep)
		removed, failed = append(removed, names...), errors.Join(failed, err)
	}
	// An unreachable default engine is no error: sessions may never have used it.
	if a, err := findEngine("", d.surroundings()); err == nil && used[a] == nil {
		if e, err := newEngine(a); err == nil {
			names, _ := e.sweep(ctx, daemon, keep)
			removed = append(removed, names...)
			_ = e.Client.Close()
		}
	}
	slices.Sort(removed)
	return removed, failed
}

func (e *engine) sweep(ctx context.Context, daemon string, keep func(sessionID string) bool) ([]string, error) {
	var removed []string
	list, err := e.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelDaemon+"="+daemon)})
	if err != nil {
		return nil, e.fails(ctx, "containers of TRL", err)
	}
	var failed error
	for _, c := range list.Items {
		if c.Labels[labelDaemon] != daemon || keep(c.Labels[labelSession]) {
			continue
		}
		name := c.ID
		if len(c.Names) > 0 {
			name = strings.TrimPrefix(c.Names[0], "/")
		}
		if err := e.remove(ctx, c.ID); err != nil {
			failed = errors.Join(failed, e.fails(ctx, "container "+name, err))
			continue
		}
		removed = append(removed, "container "+name)
	}
	volumes, err := e.VolumeList(ctx, client.VolumeListOptions{Filters: client.Filters{}.Add("label", labelRunner)})
	if err != nil {
		return removed, errors.Join(failed, e.fails(ctx, "volumes of TRL", err))
	}
	for _, v := range volumes.Items {
		if hash := v.Labels[labelRunner]; hash == "" || current(hash) {
			continue
		}
		// The engine refuses to remove a volume that a container uses.
		if _, err := e.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{}); err == nil {
			removed = append(removed, "volume "+v.Name)
		}
	}
	return removed, failed
}

// current reports whether this daemon puts the runner with that hash into containers.
func current(hash string) bool {
	for _, arch := range []string{"amd64", "arm64"} {
		if p, err := runners.Find("linux", arch); err == nil && p.SHA256 == hash {
			return true
		}
	}
	return false
}
