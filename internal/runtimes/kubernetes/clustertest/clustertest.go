//go:build linux

// Package clustertest starts a real Kubernetes for tests: etcd, the control plane, a kubelet and
// containerd, all in namespaces of their own, so that nothing of the machine is touched and nothing
// is left. The components are one program, built from their modules in tests/kube.
package clustertest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Version is the version of Kubernetes. tests/setup.sh reads it too.
const Version = "1.36.3"

// insideVariable is set for the test program that runs inside the namespaces.
const insideVariable = "TRL_TEST_CLUSTER"

// Tests are the tests of a package, which run inside the namespaces of a cluster. Where there can
// be none, they run without, and Start skips them.
type Tests struct{ m *testing.M }

// In returns the tests for goleak.VerifyTestMain. Outside of the namespaces it does not return: the
// tests run in another process.
func In(m *testing.M) Tests {
	if os.Getenv(insideVariable) == "" && missing() == "" {
		os.Exit(outside())
	}
	if os.Getenv(insideVariable) != "" {
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			panic(fmt.Sprintf("the loopback interface of the namespace: %v: %s", err, out))
		}
	}
	return Tests{m}
}

// Run runs the tests and ends the cluster.
func (t Tests) Run() int {
	code := t.m.Run()
	if cluster != nil {
		cluster.stop()
	}
	return code
}

// program returns the path of the components.
func program() string {
	if path := os.Getenv("TRL_KUBETEST"); path != "" {
		return path
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "trl-test", "kubernetes-"+Version, "kubetest")
}

// tools are the programs that a cluster needs beside its components.
var tools = []string{"containerd", "ctr", "runc", "unshare", "ip", "mount", "busybox"}

// cniDir has the plugins of Debian's containernetworking-plugins.
const cniDir = "/usr/lib/cni"

// missing says why there can be no cluster here; "" if there can.
func missing() string {
	if os.Getuid() != 0 {
		return "a cluster needs root"
	}
	if _, err := os.Stat(program()); err != nil {
		return "Kubernetes was not built; tests/setup.sh does"
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			return tool + " is not here"
		}
	}
	if _, err := os.Stat(filepath.Join(cniDir, "bridge")); err != nil {
		return "the CNI plugins are not here"
	}
	return ""
}

// outside runs this program again, inside new namespaces.
func outside() int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	args := append([]string{"--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", self}, os.Args[1:]...)
	cmd := exec.Command("unshare", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	removeCgroups()
	if err == nil {
		return 0
	}
	if code := cmd.ProcessState.ExitCode(); code > 0 {
		return code
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// removeCgroups removes the empty cgroups that the kubelet leaves.
func removeCgroups() {
	var dirs []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && (strings.Contains(path, "/kubepods") || strings.Contains(path, "/k8s.io")) {
			dirs = append(dirs, path)
		}
		return nil
	})
	for i := len(dirs) - 1; i >= 0; i-- {
		_ = os.Remove(dirs[i])
	}
}

var (
	starting sync.Once
	cluster  *Cluster
	startErr error
)

// Cluster is a cluster with one node.
type Cluster struct {
	// Kubeconfig is the file by which clients reach the cluster. The images Busybox and Scratch
	// are on the node.
	Kubeconfig string

	dir       string
	registry  registry
	apiserver *component
	kubelet   *component
	others    []*component
}

// The images of the node.
const (
	Busybox = "localhost/trl-busybox:1"
	Scratch = "localhost/trl-scratch:1" // has no file but /README
	pause   = "localhost/trl-pause:1"
	debian  = "docker.io/library/debian:12" // that of dist/kubernetes; it has the files of Busybox
)

// Start returns the cluster, which the first caller starts. It skips the test where there can be none.
func Start(t testing.TB) *Cluster {
	t.Helper()
	if os.Getenv(insideVariable) == "" {
		t.Skip("SKIPPED: no sessions in a real Kubernetes were tested: " + missing())
	}
	starting.Do(func() {
		cluster, startErr = start()
	})
	if startErr != nil {
		t.Fatal(startErr)
	}
	return cluster
}

// component is one process of the cluster.
type component struct {
	name string
	args []string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
}

func (c *component) start() error {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	c.cmd = exec.Command(c.args[0], c.args[1:]...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	if err := c.cmd.Start(); err != nil {
		return err
	}
	c.done = make(chan struct{})
	go func() {
		_ = c.cmd.Wait()
		close(c.done)
	}()
	return nil
}

func (c *component) kill() {
	if c.cmd != nil {
		_ = c.cmd.Process.Kill()
		<-c.done
	}
}

func start() (*Cluster, error) {
	dir, err := os.MkdirTemp("", "kube")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, Kubeconfig: filepath.Join(dir, "run/kubeconfig")}
	if err := c.start(); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) stop() {
	if c.kubelet != nil {
		c.kubelet.kill()
	}
	for i := len(c.others) - 1; i >= 0; i-- {
		c.others[i].kill()
	}
	if c.apiserver != nil {
		c.apiserver.kill()
	}
	// The namespaces end with this process, and the mounts and processes in them.
	_ = exec.Command("umount", "-R", filepath.Join(c.dir, "cstate")).Run()
	_ = os.RemoveAll(c.dir)
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *Cluster) start() error {
	for _, d := range []string{"run", "log", "cni", "kubelet"} {
		if err := os.MkdirAll(c.path(d), 0o755); err != nil {
			return err
		}
	}
	if err := c.prepareNamespaces(); err != nil {
		return err
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	run := func(name string, args ...string) error {
		k := &component{name: name, args: args, log: c.path("log/" + name + ".log")}
		if err := k.start(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		switch name {
		case "apiserver":
			c.apiserver = k
		case "kubelet":
			c.kubelet = k
		default:
			c.others = append(c.others, k)
		}
		return nil
	}
	bin, etcd := program(), "http://127.0.0.1:2379"
	err := run("containerd", "containerd", "-c", c.path("run/containerd.toml"))
	if err == nil {
		err = run("etcd", bin, "etcd", "--data-dir", c.path("etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
			"--listen-peer-urls", "http://127.0.0.1:2380", "--unsafe-no-fsync")
	}
	if err == nil {
		err = run("apiserver", bin, "apiserver", "--etcd-servers", etcd, "--secure-port", "443", "--bind-address", "0.0.0.0",
			"--advertise-address", nodeIP, "--cert-dir", c.path("run/certs"), "--token-auth-file", c.path("run/tokens.csv"),
			"--authorization-mode", "RBAC", "--service-account-issuer", "https://trl.test",
			"--service-account-key-file", c.path("run/sa.key"), "--service-account-signing-key-file", c.path("run/sa.key"),
			"--service-cluster-ip-range", "10.96.0.0/24", "--kubelet-preferred-address-types", "InternalIP")
	}
	if err != nil {
		return err
	}
	if err := c.await("the apiserver", "/readyz", "ok"); err != nil {
		return err
	}
	err = run("controller-manager", bin, "controller-manager", "--kubeconfig", c.Kubeconfig, "--leader-elect=false",
		"--service-account-private-key-file", c.path("run/sa.key"), "--root-ca-file", c.path("run/certs/apiserver.crt"))
	if err == nil {
		err = run("scheduler", bin, "scheduler", "--kubeconfig", c.Kubeconfig, "--leader-elect=false")
	}
	if err == nil {
		err = c.importImages()
	}
	if err == nil {
		err = run("kubelet", bin, "kubelet", "--config", c.path("run/kubelet.yaml"), "--kubeconfig", c.Kubeconfig,
			"--hostname-override", "node1", "--node-ip", nodeIP, "--root-dir", c.path("kubelet"), "--cert-dir", c.path("kubelet/pki"))
	}
	if err != nil {
		return err
	}
	if err := c.await("the node", nodePath, "KubeletReady"); err != nil {
		return err
	}
	return c.await("the service account", "/api/v1/namespaces/default/serviceaccounts/default", `"name"`)
}

// nodeIP is the address of the node. The apiserver refuses one on loopback. serviceIP is that of the
// service kubernetes, by which pods reach the apiserver. No kube-proxy translates it, so the node has
// it too, and the apiserver listens on the port of the service.
const (
	nodeIP    = "10.77.0.1"
	serviceIP = "10.96.0.1"
)

// prepareNamespaces shadows what the components would change on the machine, and makes a network.
func (c *Cluster) prepareNamespaces() error {
	// The kubelet insists on these values of the kernel's parameters: let it see them.
	for name, value := range map[string]string{
		"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	} {
		file := c.path("run/" + strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := syscall.Mount(file, "/proc/sys/"+name, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("shadow of %s: %w", name, err)
		}
	}
	for _, d := range []string{"/run/netns", "/var/lib/kubelet", "/var/lib/cni", "/usr/libexec"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount("tmpfs", d, "tmpfs", 0, ""); err != nil {
			return fmt.Errorf("shadow of %s: %w", d, err)
		}
	}
	for _, command := range []string{
		"link add node0 type bridge", "addr add " + nodeIP + "/24 dev node0", "addr add " + serviceIP + "/32 dev node0", "link set node0 up", "route add default dev node0",
	} {
		if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", command, err, out)
		}
	}
	return nil
}

func (c *Cluster) writeFiles() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"run/sa.key":     string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})),
		"run/tokens.csv": token + ",admin,1,system:masters\n",
		"run/kubeconfig": `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: ` + token + `}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`,
		"run/containerd.toml": strings.ReplaceAll(containerdConfig, "WORK", c.dir),
		"cni/10-br.conflist": `{"cniVersion":"0.4.0","name":"trl","plugins":[{"type":"bridge","bridge":"cni0","isGateway":true,"ipam":{"type":"host-local",` +
			`"ranges":[[{"subnet":"10.78.0.0/16"}]],"routes":[{"dst":"0.0.0.0/0"}],"dataDir":"` + c.path("run/ipam") + `"}}]}`,
		"run/kubelet.yaml": strings.ReplaceAll(kubeletConfig, "WORK", c.dir),
	} {
		if err := os.WriteFile(c.path(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

const token = "admintoken"

const containerdConfig = `version = 2
root = "WORK/containerd"
state = "WORK/cstate"
[grpc]
  address = "WORK/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + pause + `"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "WORK/registries"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "` + cniDir + `"
    conf_dir = "WORK/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
`

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupsPerQOS: true
enforceNodeAllocatable: []
containerRuntimeEndpoint: unix://WORK/containerd.sock
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
makeIPTablesUtilChains: false
resolvConf: ""
podLogsDir: WORK/podlogs
oomScoreAdj: 0
maxPods: 250
evictionHard: {memory.available: 50Mi}
imageGCHighThresholdPercent: 100
featureGates: {KubeletInUserNamespace: true}
`

var anyServer = &http.Client{
	Timeout:   5 * time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
}

// Get asks the apiserver.
func (c *Cluster) Get(path string) (string, error) {
	return c.Do(http.MethodGet, path, "", nil)
}

// Do makes a request to the apiserver.
func (c *Cluster) Do(method, path, kind string, body []byte) (string, error) {
	req, err := http.NewRequest(method, "https://127.0.0.1:443"+path, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	answer, err := anyServer.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return string(text), err
}

// startTimeout bounds the wait for each part of the cluster.
const startTimeout = 2 * time.Minute

// await asks until the answer contains a word.
func (c *Cluster) await(what, path, word string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := c.Get(path)
		if err == nil && strings.Contains(text, word) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %v: %.300s\n%s", what, err, text, c.logs())
		}
	}
}

// logs returns the ends of the components' logs.
func (c *Cluster) logs() string {
	var b strings.Builder
	files, _ := filepath.Glob(c.path("log/*.log"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		fmt.Fprintf(&b, "%s:\n%s\n", filepath.Base(file), text[max(0, len(text)-1500):])
	}
	return b.String()
}

// StopAPIServer kills the apiserver. StartAPIServer starts it again, and returns when it is ready.
func (c *Cluster) StopAPIServer() { c.apiserver.kill() }

// StartAPIServer starts the apiserver again.
func (c *Cluster) StartAPIServer(t testing.TB) {
	t.Helper()
	if err := c.apiserver.start(); err != nil {
		t.Fatal(err)
	}
	if err := c.await("the apiserver", "/readyz", "ok"); err != nil {
		t.Fatal(err)
	}
}
