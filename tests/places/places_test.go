//go:build linux

// Package places has the tests of a real daemon whose sessions live elsewhere: in a container, on
// another machine over ssh, in a pod, and on another daemon. What a session does there is the same as on
// the host; see docs/runtimes.md for the differences.
package places

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/runtimes/docker/dockertest"
	"github.com/trl-dev/trl/internal/runtimes/kubernetes/clustertest"
	"github.com/trl-dev/trl/internal/runtimes/ssh/sshdtest"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestMain runs the tests in the namespaces of a cluster, where there can be one.
func TestMain(m *testing.M) { dockertest.Exit(clustertest.In(m).Run()) }

// place is a daemon and a place in which it has sessions.
type place struct {
	*testing.T
	*client.Client
	site
	name   string
	daemon *trltest.Daemon
	ctx    context.Context
}

// site is a place without a daemon.
type site struct {
	at  api.SessionCreateParams // names the place
	env []string                // of the daemon
	// section is that of docs/runtimes.md, and replaced what its examples find instead of what it says.
	section  string
	replaced []string
	example  string // the folder of examples for the place; empty for none
	has      string // the one of trltest.Needs that the place has; empty for none
}

// builder makes a place.
type builder struct {
	name  string
	build func(t *testing.T, shared []string) site
}

// builders make the places. shared are directories of this machine that sessions see everywhere, at
// the same paths and read-only.
var builders = []builder{
	{"docker", inDocker}, {"ssh", overSSH}, {"kubernetes", inKubernetes}, {"trl", onOtherDaemon},
}

// each runs a test in every place, beside each other.
func each(t *testing.T, shared []string, f func(p *place)) {
	for _, b := range builders {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			site := b.build(t, shared)
			daemon := startDaemon(t, site.env...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			f(&place{T: t, Client: daemon.Client(t), site: site, name: b.name, daemon: daemon, ctx: ctx})
		})
	}
}

func startDaemon(t *testing.T, env ...string) *trltest.Daemon {
	t.Helper()
	binary := testkit.Must(trltest.Static())(t)
	return trltest.Start(t, trltest.Use(binary), trltest.Args("--kill-grace-s", "2", "--log-level", "warn", "--max-sessions", "100", "--grpc", "127.0.0.1:0"), trltest.Env(env...))
}

// system is what containers and pods borrow from this machine, so that they have the same programs.
func system() []string {
	var list []string
	for _, dir := range []string{"/usr", "/bin", "/lib", "/lib64", "/etc/alternatives"} {
		if _, err := os.Stat(dir); err == nil {
			list = append(list, dir)
		}
	}
	return list
}

func inDocker(t *testing.T, shared []string) site {
	engine := dockertest.Shared(t)
	o := &api.PlaceOptions{}
	for _, dir := range append(system(), shared...) {
		o.Mounts = append(o.Mounts, dir+":"+dir+":ro")
	}
	return site{
		at: api.SessionCreateParams{Runtime: "docker:" + dockertest.Busybox, Place: o}, env: []string{"DOCKER_HOST=" + engine.Host},
		section: "Docker and Podman", example: "ci-docker", has: "Docker",
		// The image has no Go.
		replaced: []string{"docker:alpine", "docker:" + dockertest.Busybox, "docker:golang:1.26", "docker:" + dockertest.Busybox, "go test ./...", "ls -d /src"},
	}
}

func overSSH(t *testing.T, _ []string) site {
	server := sshdtest.Start(t, sshdtest.Options{Shell: "/bin/bash"})
	o := &api.PlaceOptions{Identity: server.Identity(), SSHOptions: server.ClientOptions()}
	word := "ssh:" + server.Destination()
	example := word + " --place identity=" + o.Identity
	for _, option := range o.SSHOptions {
		example += " --place ssh_options=" + option
	}
	return site{
		at:      api.SessionCreateParams{Runtime: word, Place: o},
		section: "Other machines, over ssh", example: "remote-build", has: "another machine", replaced: []string{"ssh:me@build.example", example},
	}
}

func inKubernetes(t *testing.T, shared []string) site {
	cluster := clustertest.Start(t)
	var volumes, mounts []string
	for i, dir := range append(system(), shared...) {
		volumes = append(volumes, fmt.Sprintf("{name: d%d, hostPath: {path: %q}}", i, dir))
		mounts = append(mounts, fmt.Sprintf("{name: d%d, mountPath: %q, readOnly: true}", i, dir))
	}
	template := filepath.Join(t.TempDir(), "pod.yaml")
	text := fmt.Sprintf("kind: Pod\nspec:\n  volumes: [%s]\n  containers: [{name: work, volumeMounts: [%s]}]\n", strings.Join(volumes, ", "), strings.Join(mounts, ", "))
	if err := os.WriteFile(template, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return site{
		at:  api.SessionCreateParams{Runtime: "kubernetes:" + clustertest.Busybox, Place: &api.PlaceOptions{PodTemplate: template}},
		env: []string{"KUBECONFIG=" + cluster.Kubeconfig}, section: "Kubernetes", example: "kubernetes-batch",
		replaced: []string{"kubernetes:debian:12", "kubernetes:" + clustertest.Busybox, "k8s:debian:12", "k8s:" + clustertest.Busybox, "default/web", "default/" + cluster.Pod(t)},
	}
}

func onOtherDaemon(t *testing.T, _ []string) site {
	other := startDaemon(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(other.Token(t)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	word := "trl:" + other.GRPC(t)
	return site{
		at:      api.SessionCreateParams{Runtime: word, Place: &api.PlaceOptions{TokenFile: token}},
		section: "Other daemons", replaced: []string{"trl:grpcs://box.example:7331", word, "token_file=box.token", "token_file=" + token},
	}
}

// create creates a session in the place.
func (p *place) create(params api.SessionCreateParams) api.SessionInfo {
	p.Helper()
	params.Runtime, params.Place = p.at.Runtime, p.at.Place
	return testkit.Must(p.SessionCreate(p.ctx, params))(p)
}

func (p *place) destroy(id string) {
	p.Helper()
	testkit.Must(p.SessionDestroy(p.ctx, api.SessionDestroyParams{SessionID: id, Force: true}))(p)
}
