// Package kubernetes puts sessions into pods. It does not speak with clusters itself: the program
// trl-kube does (package kube), which is started when it is first needed, so that users of other
// runtimes do not pay for the libraries of Kubernetes.
package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/kube/op"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/session"
)

// Driver is the driver of Kubernetes. It is safe for concurrent use.
type Driver struct {
	helper *helper

	mu   sync.Mutex
	used map[string]map[string]bool // guarded by mu; the namespaces of each cluster in which pods were made or found
}

var _ remote.Driver = (*Driver)(nil)

// New returns a driver. It starts nothing.
func New(c Config) *Driver {
	return &Driver{helper: &helper{config: c}, used: map[string]map[string]bool{}}
}

// Name returns "kubernetes".
func (d *Driver) Name() string { return string(api.PlaceKubernetes) }

// Kinds returns new pods and existing ones.
func (d *Driver) Kinds() []api.PlaceKind {
	return []api.PlaceKind{api.PlaceKubernetes, api.PlacePod}
}

// Close ends the program, and with it all connections to pods.
func (d *Driver) Close() { d.helper.close() }

// Check asks the cluster for its version and the system of its nodes.
func (d *Driver) Check(ctx context.Context, t session.Target) api.RuntimeCheckResult {
	r := api.RuntimeCheckResult{Runtime: t.Word, Kind: t.Kind, Enforced: []string{}}
	request := op.Request{Op: op.Check, Cluster: t.Options.Context}
	_, err := d.helper.ask(ctx, request, nil) // the first question also starts the program and connects
	started := time.Now()
	var a op.Answer
	if err == nil {
		a, err = d.helper.ask(ctx, request, nil)
	}
	if err != nil {
		r.Why = err.Error()
		return r
	}
	r.Reachable, r.LatencyMS, r.Engine = true, float64(time.Since(started).Microseconds())/1000, "kubernetes "+a.Version
	if a.Pod != nil {
		r.OS, r.Arch = a.Pod.OS, a.Pod.Arch
	}
	if t.Kind == api.PlaceKubernetes && t.Options.PodTemplate == "" && t.Options.ClaimPool == "" { // what TRL sets
		r.Enforced = append(r.Enforced, "no-new-privileges", "seccomp")
		if len(t.Options.Capabilities) == 0 {
			r.Enforced = append(r.Enforced, "no-capabilities")
		}
		slices.Sort(r.Enforced)
	}
	if t.Kind == api.PlacePod {
		a, err := d.helper.ask(ctx, op.Request{Op: op.Find, Cluster: t.Options.Context, Options: t.Options}, nil)
		if err != nil {
			r.Reachable, r.Why = false, err.Error()
			return r
		}
		r.OS, r.Arch = a.Pod.OS, a.Pod.Arch
	}
	return r
}

// Open makes a pod, or finds an existing one.
func (d *Driver) Open(ctx context.Context, o remote.Opening) (remote.Site, error) {
	request := op.Request{
		Op: op.Create, Cluster: o.Target.Options.Context, Daemon: o.Daemon, SessionID: o.SessionID, Options: o.Target.Options, Limits: o.Limits,
	}
	if o.Target.Kind == api.PlacePod {
		request.Op = op.Find
	}
	a, err := d.helper.ask(ctx, request, o.Progress)
	if err != nil {
		return nil, err
	}
	s := &site{driver: d, rec: record{Cluster: request.Cluster, Kind: o.Target.Kind, Pod: *a.Pod, HasRunner: request.Options.RunnerImage != ""}}
	d.note(s)
	return s, nil
}

// note remembers where Sweep has to look.
func (d *Driver) note(s *site) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.used[s.rec.Cluster] == nil {
		d.used[s.rec.Cluster] = map[string]bool{}
	}
	d.used[s.rec.Cluster][s.rec.Pod.Namespace] = true
}

// Restore returns the pod of a record.
func (d *Driver) Restore(text json.RawMessage) (remote.Site, error) {
	s := &site{driver: d}
	if err := json.Unmarshal(text, &s.rec); err != nil {
		return nil, err
	}
	if s.rec.Pod.Name == "" || s.rec.Pod.Namespace == "" {
		return nil, errors.New("record names no pod")
	}
	d.note(s)
	return s, nil
}

// Sweep removes the pods and claims of this daemon that belong to no session, in the namespaces that
// the daemon has used. keep is asked about every session whose pod is found.
func (d *Driver) Sweep(ctx context.Context, daemon string, keep func(sessionID string) bool) ([]string, error) {
	d.mu.Lock()
	used := map[string][]string{}
	for cluster, namespaces := range d.used {
		for namespace := range namespaces {
			used[cluster] = append(used[cluster], namespace)
		}
	}
	d.mu.Unlock()
	var removed []string
	var errs []error
	for cluster, namespaces := range used {
		slices.Sort(namespaces)
		found, err := d.helper.ask(ctx, op.Request{Op: op.List, Cluster: cluster, Daemon: daemon, Namespaces: namespaces}, nil)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, stray := range found.Strays {
			if keep(stray.SessionID) {
				continue
			}
			if _, err := d.helper.ask(ctx, op.Request{Op: op.Remove, Cluster: cluster, Pod: stray.Pod}, nil); err != nil {
				errs = append(errs, err)
				continue
			}
			removed = append(removed, stray.Name())
		}
	}
	return removed, errors.Join(errs...)
}

// record describes a pod to a later daemon.
type record struct {
	Cluster string        `json:"cluster,omitempty"`
	Kind    api.PlaceKind `json:"kind"`
	Pod     op.Pod        `json:"pod"`
	// HasRunner says that the runner came with the pod, from an image.
	HasRunner bool `json:"has_runner,omitempty"`
}

// site is one container of a pod.
type site struct {
	driver *Driver

	mu  sync.Mutex
	rec record // OS and Arch are guarded by mu, and set by Install at the latest
}

func (s *site) record() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rec
}

// ID names the cluster and the container.
func (s *site) ID() string {
	r := s.record()
	return strings.Join([]string{r.Cluster, r.Pod.Namespace, r.Pod.Name, r.Pod.UID, r.Pod.Container}, "/")
}

// Record describes the pod.
func (s *site) Record() json.RawMessage {
	text, err := json.Marshal(s.record())
	if err != nil {
		panic(err) // a struct of strings
	}
	return text
}

// Info describes the pod.
func (s *site) Info() api.PlaceInfo {
	r := s.record()
	return api.PlaceInfo{
		Kind: r.Kind, Namespace: r.Pod.Namespace, Pod: r.Pod.Name, Container: r.Pod.Container, Image: r.Pod.Image, Node: r.Pod.Node,
		OS: r.Pod.OS, Arch: r.Pod.Arch,
	}
}

// Exec starts a program in the container.
func (s *site) Exec(ctx context.Context, argv []string) (remote.Process, error) {
	r := s.record()
	return s.driver.helper.exec(ctx, r.Cluster, r.Pod, argv)
}

// Remove removes a pod that TRL made.
func (s *site) Remove(ctx context.Context) error {
	r := s.record()
	_, err := s.driver.helper.ask(ctx, op.Request{Op: op.Remove, Cluster: r.Cluster, Pod: r.Pod}, nil)
	return err
}

// Limits returns the limits of a session that the pod made for it enforces.
func (s *site) Limits() []api.EnforcedLimit {
	if r := s.record(); !r.Pod.Made || r.Pod.Claim != "" {
		return nil
	}
	by := string(api.PlaceKubernetes)
	return []api.EnforcedLimit{{Limit: api.LimitCPUs, Mechanism: by}, {Limit: api.LimitMemory, Mechanism: by}}
}
