//go:build linux

package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/kube"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/runner"
	"github.com/trl-dev/trl/internal/runtimes/kubernetes"
	"github.com/trl-dev/trl/internal/runtimes/kubernetes/clustertest"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/runtimes/runtimetest"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/state"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestMain makes this program the runner and trl-kube too.
func TestMain(m *testing.M) {
	if runner.Called() {
		os.Exit(runner.Main())
	}
	if len(os.Args) > 0 && filepath.Base(os.Args[0]) == "trl-kube" {
		os.Exit(kube.Main())
	}
	goleak.VerifyTestMain(clustertest.In(m))
}

func newDriver(t *testing.T) *kubernetes.Driver {
	d, end := startDriver(t, clustertest.Start(t).Kubeconfig, t.TempDir())
	t.Cleanup(func() {
		d.Close()
		end()
	})
	return d
}

// startDriver makes a driver. The caller closes it and then calls end.
func startDriver(t *testing.T, kubeconfig, dir string) (d *kubernetes.Driver, end func()) {
	t.Helper()
	reaper := process.NewReaper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return kubernetes.New(kubernetes.Config{
		Program: func() (string, error) { return self, nil }, Spawn: reaper.Start, Forget: func(int) {}, Dir: dir,
		Environ: append(os.Environ(), "KUBECONFIG="+kubeconfig),
	}), reaper.Close
}

func target(kind api.PlaceKind, o api.PlaceOptions) session.Target {
	return session.Target{Word: string(kind), Kind: kind, Options: o}
}

func open(t *testing.T, d *kubernetes.Driver, n int, to session.Target) remote.Machine {
	t.Helper()
	site, err := d.Open(t.Context(), remote.Opening{
		Daemon: "d1", SessionID: fmt.Sprintf("s-%010x", n), Target: to, Progress: func(p api.PlaceProgress) { t.Log(p.Step, p.Message) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := site.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return site.(remote.Machine)
}

func TestCheck(t *testing.T) {
	d := newDriver(t)
	r := d.Check(t.Context(), target(api.PlaceKubernetes, api.PlaceOptions{Image: clustertest.Busybox}))
	if !r.Reachable || r.Engine != "kubernetes v"+clustertest.Version || r.LatencyMS <= 0 || r.OS != "linux" || r.Arch != runtime.GOARCH {
		t.Errorf("%+v", r)
	}
	r = d.Check(t.Context(), target(api.PlacePod, api.PlaceOptions{Pod: "none"}))
	if r.Reachable || !strings.Contains(r.Why, `no pod "none"`) {
		t.Errorf("%+v", r)
	}
	r = d.Check(t.Context(), target(api.PlaceKubernetes, api.PlaceOptions{Context: "moon"}))
	if r.Reachable || !strings.Contains(r.Why, "moon") {
		t.Errorf("%+v", r)
	}
}

func TestRunnerIsCopiedOnce(t *testing.T) {
	d := newDriver(t)
	made := open(t, d, 1, target(api.PlaceKubernetes, api.PlaceOptions{Image: clustertest.Busybox}))
	info := made.Info()
	// The same pod again, with another owner.
	found := open(t, d, 2, target(api.PlacePod, api.PlaceOptions{Pod: info.Pod}))
	for _, site := range []remote.Machine{made, found} {
		var uploads int
		progress := func(p api.PlaceProgress) {
			if p.Step == "upload" && p.Done == p.Total {
				uploads++
			}
		}
		path, err := site.Install(t.Context(), progress)
		if err != nil {
			t.Fatal(err)
		}
		again, err := site.Install(t.Context(), progress)
		if err != nil || again != path || uploads != 1 {
			t.Errorf("again: %q and %q, %d uploads, %v", path, again, uploads, err)
		}
		p, err := site.Exec(t.Context(), []string{path, "check"})
		if err != nil {
			t.Fatal(err)
		}
		var there struct {
			OS, Arch string
		}
		if err := json.NewDecoder(p).Decode(&there); err != nil {
			t.Error(err)
		}
		p.Close()
		if exit, err := p.Wait(); err != nil || exit.Status != 0 {
			t.Errorf("check: %+v, %v", exit, err)
		}
		if there.OS != "linux" || site.Info().Arch != there.Arch {
			t.Errorf("the runner says %+v, the place %+v", there, site.Info())
		}
	}
	// A pod with another owner is not removed.
	if err := found.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := made.Exec(t.Context(), []string{"/bin/true"}); err != nil {
		t.Error(err)
	}
}

func TestImageWithoutShell(t *testing.T) {
	d := newDriver(t)
	_, err := d.Open(t.Context(), remote.Opening{
		Daemon: "d1", SessionID: "s-0000000003", Target: target(api.PlaceKubernetes, api.PlaceOptions{Image: clustertest.Scratch}),
		Progress: func(api.PlaceProgress) {},
	})
	if err == nil || !strings.Contains(err.Error(), "runner_image") {
		t.Errorf("got %v", err)
	}
}

// TestInstallNowhere: a pod that cannot have the runner gets a clear error. In a container /dev/shm is
// mounted noexec.
func TestInstallNowhere(t *testing.T) {
	cluster, d := clustertest.Start(t), newDriver(t)
	for i, c := range []struct{ name, more, says string }{
		{"read-only and noexec", `"securityContext":{"readOnlyRootFilesystem":true},`, "no directory is writable and allows programs to be started; looked at /run/trl-runner"},
		{"full disk", `"securityContext":{"readOnlyRootFilesystem":true},"volumeMounts":[{"name":"small","mountPath":"/tmp"}],`, "No space left on device"},
	} {
		t.Run(c.name, func(t *testing.T) {
			site := open(t, d, 10+i, target(api.PlacePod, api.PlaceOptions{Pod: cluster.Pod(t, c.more)}))
			path, err := site.Install(t.Context(), func(api.PlaceProgress) {})
			if !errors.Is(err, api.ErrRuntimeUnavailable) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q, %v", path, err)
			}
			p := testkit.Must(site.Exec(t.Context(), []string{"/bin/sh", "-c", "find /run /var /tmp /dev/shm -name '*trl-runner*' 2>/dev/null; exit 0"}))(t)
			left, _ := io.ReadAll(p)
			if exit, err := p.Wait(); err != nil || exit.Status != 0 || len(left) > 0 {
				t.Errorf("left: %q, %+v, %v", left, exit, err)
			}
		})
	}
}

// TestWrongArchitecture: a pod for which there is no runner gets an error that names its platform. Where the
// cluster does not tell the platform, the pod does.
func TestWrongArchitecture(t *testing.T) {
	cluster, d := clustertest.Start(t), newDriver(t)
	site := open(t, d, 30, target(api.PlacePod, api.PlaceOptions{Pod: cluster.Pod(t)}))
	as := func(arch string) remote.Machine {
		told := regexp.MustCompile(`"arch":"[a-z0-9]*"`).ReplaceAll(site.Record(), []byte(`"arch":"`+arch+`"`))
		return testkit.Must(d.Restore(told))(t).(remote.Machine)
	}
	_, err := as("s390x").Install(t.Context(), func(api.PlaceProgress) {})
	testkit.WantError(t, err, api.CodeRuntimeUnavailable, "no runner for linux/s390x")
	unknown := as("")
	if _, err := unknown.Install(t.Context(), func(api.PlaceProgress) {}); err != nil || unknown.Info().Arch != runtime.GOARCH {
		t.Errorf("%+v, %v", unknown.Info(), err)
	}
}

// TestEnds: a pod that the cluster ends has ended for the reason that the cluster gives, also when it is
// removed at once.
func TestEnds(t *testing.T) {
	cluster, d := clustertest.Start(t), newDriver(t)
	template := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(template, []byte("kind: Pod\nspec:\n  containers: [{name: work, resources: {limits: {ephemeral-storage: 30Mi}}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		name, cause string
		long        bool
		end         func(t *testing.T, site remote.Machine)
	}{
		{"evicted", "EvictionByEvictionAPI: Eviction API: evicting", false, func(t *testing.T, site remote.Machine) {
			pod := site.Info().Pod
			body := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q}}`, pod)
			testkit.Must(cluster.Do(http.MethodPost, "/api/v1/namespaces/default/pods/"+pod+"/eviction", "application/json", []byte(body)))(t)
		}},
		{"evicted by its node", "Evicted: ", false, func(t *testing.T, site remote.Machine) {
			p := testkit.Must(site.Exec(t.Context(), []string{"/bin/dd", "if=/dev/zero", "of=/tmp/much", "bs=1M", "count=60"}))(t)
			_, _ = io.ReadAll(p)
			if exit, err := p.Wait(); err != nil || exit.Status != 0 {
				t.Errorf("dd: %+v, %v", exit, err)
			}
		}},
		{"driven out by a taint", "DeletionByTaintManager: ", false, func(t *testing.T, _ remote.Machine) { cluster.Taint(t) }},
		{"node lost", "DeletionByPodGC: PodGC: node no longer exists", true, func(t *testing.T, _ remote.Machine) { cluster.LoseNode(t) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long && os.Getenv("TRL_TEST_PLACES") != "all" {
				t.Skip("TRL_TEST_PLACES is not all: the cluster waits a minute before it gives a node up")
			}
			site := open(t, d, 40+i, target(api.PlaceKubernetes, api.PlaceOptions{Image: clustertest.Busybox, PodTemplate: template}))
			p := testkit.Must(site.Exec(t.Context(), []string{"/bin/sleep", "100000"}))(t)
			c.end(t, site)
			_, _ = io.ReadAll(p) // until the connection ends
			if exit, err := p.Wait(); err == nil && exit.Status == 0 {
				t.Error("the program ended well")
			}
			testkit.EventuallyNoProblem(t, func() string {
				p, err := site.Exec(t.Context(), []string{"/bin/true"})
				if err == nil {
					_ = p.Close()
				}
				var ended *remote.EndedError
				if errors.As(err, &ended) && strings.Contains(ended.Cause, c.cause) && strings.Contains(ended.Cause, site.Info().Pod) {
					t.Log(ended.Cause)
					return ""
				}
				if ended != nil {
					t.Fatalf("ended with the cause %q, want %q", ended.Cause, c.cause)
				}
				return fmt.Sprintf("has not ended: %v", err)
			})
		})
	}
}

// TestAPIServerGone: without the apiserver a pod is unreachable, not ended, and everything works again
// when it is back.
func TestAPIServerGone(t *testing.T) {
	cluster, d := clustertest.Start(t), newDriver(t)
	to := target(api.PlacePod, api.PlaceOptions{Pod: cluster.Pod(t)})
	site := open(t, d, 20, to)
	cluster.StopAPIServer()
	_, err := site.Exec(t.Context(), []string{"/bin/true"})
	var ended *remote.EndedError
	if errors.As(err, &ended) {
		t.Errorf("the pod is said to have ended: %v", err)
	}
	testkit.WantError(t, err, api.CodeRuntimeUnavailable, "connection refused")
	_, err = d.Open(t.Context(), remote.Opening{Daemon: "d1", SessionID: "s-0000000021", Target: to, Progress: func(api.PlaceProgress) {}})
	testkit.WantError(t, err, api.CodeRuntimeUnavailable, "connection refused")
	if r := d.Check(t.Context(), to); r.Reachable || !strings.Contains(r.Why, "connection refused") {
		t.Errorf("check: %+v", r)
	}
	cluster.StartAPIServer(t)
	p := testkit.Must(site.Exec(t.Context(), []string{"/bin/true"}))(t)
	_, _ = io.ReadAll(p)
	if exit, err := p.Wait(); err != nil || exit.Status != 0 {
		t.Errorf("afterwards: %+v, %v", exit, err)
	}
}

// TestRuntime passes the checks of every runtime, in a real cluster.
func TestRuntime(t *testing.T) { runtimetest.Run(t, newPods(clustertest.Start(t))) }

// TestSessions passes the checks with whole sessions.
func TestSessions(t *testing.T) { runtimetest.RunSessions(t, newPods(clustertest.Start(t))) }

// TestExistingPod passes them in a pod that TRL did not make. It takes minutes, so it runs only with
// the tests of everything in every place.
func TestExistingPod(t *testing.T) {
	if os.Getenv("TRL_TEST_PLACES") != "all" {
		t.Skip("TRL_TEST_PLACES is not all")
	}
	runtimetest.RunSessions(t, existingPod(clustertest.Start(t)))
}

// newPods returns new pods of a cluster.
func newPods(cluster *clustertest.Cluster) func(t *testing.T) runtimetest.Place {
	return func(t *testing.T) runtimetest.Place {
		return newPlace(t, cluster, target(api.PlaceKubernetes, api.PlaceOptions{Image: clustertest.Busybox}))
	}
}

// existingPod returns pods that exist before the sessions in them, and after.
func existingPod(cluster *clustertest.Cluster) func(t *testing.T) runtimetest.Place {
	return func(t *testing.T) runtimetest.Place {
		return newPlace(t, cluster, target(api.PlacePod, api.PlaceOptions{Namespace: "default", Pod: cluster.Pod(t)}))
	}
}

// newPlace returns a place of a cluster, behind a network that can break.
func newPlace(t *testing.T, cluster *clustertest.Cluster, to session.Target) runtimetest.Place {
	t.Helper()
	dir, log := testkit.Dir(t), &testkit.Buffer{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", log)
		}
	})
	const server = "127.0.0.1:443"
	proxy := testkit.NewProxy(t, server)
	text := testkit.Must(os.ReadFile(cluster.Kubeconfig))(t)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, bytes.ReplaceAll(text, []byte(server), []byte(proxy.Address())), 0o600); err != nil {
		t.Fatal(err)
	}
	return runtimetest.Place{
		Open: func(t *testing.T) (session.Runtime, func()) {
			t.Helper()
			records, err := state.Open(state.Config{Path: filepath.Join(dir, "state"), Logger: logger})
			if err != nil {
				t.Fatal(err)
			}
			driver, end := startDriver(t, kubeconfig, dir)
			rt, err := remote.New(remote.Config{Driver: driver, State: records, Logger: logger})
			if err != nil {
				t.Fatal(err)
			}
			return rt, func() {
				rt.Close()
				end()
				records.Close()
			}
		},
		WantEmpty: func(t *testing.T) {
			t.Helper()
			wantNoPods(t, cluster)
		},
		Target: to,
		Cycles: 8, // a pod takes seconds
		Cut:    proxy.Cut,
		Lose: func() func() {
			proxy.Refuse()
			proxy.Cut()
			return proxy.Listen
		},
		End: func(r session.Runner) string {
			name := r.Place().Info.Pod
			if _, err := cluster.Do(http.MethodDelete, "/api/v1/namespaces/default/pods/"+name+"?gracePeriodSeconds=0", "", nil); err != nil {
				t.Error(err)
			}
			return "was deleted"
		},
		Listing: func() string {
			text, err := cluster.Get("/api/v1/namespaces/default/pods")
			if err != nil {
				t.Error(err)
			}
			return text
		},
	}
}

// wantNoPods waits until the cluster has no pod of TRL: a pod that was deleted is still listed for a
// moment.
func wantNoPods(t *testing.T, cluster *clustertest.Cluster) {
	t.Helper()
	testkit.EventuallyNoProblem(t, func() string {
		text, err := cluster.Get("/api/v1/namespaces/default/pods?labelSelector=trl.dev/session")
		if err == nil && strings.Contains(strings.ReplaceAll(text, " ", ""), `"items":[]`) {
			return ""
		}
		return fmt.Sprintf("pods are left: %v: %s", err, text)
	})
}
