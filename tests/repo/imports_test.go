package repo_test

import (
	"slices"
	"strings"
	"testing"
)

// mayImport is the picture in docs/architecture.md as a table: for every
// package, which others of the module it may import. A package that is not here
// fails the test, so a new edge is always a decision.
var mayImport = map[string][]string{
	"cmd/trl":        {"internal/cli"},
	"cmd/trl-runner": {"internal/runner"},
	"cmd/trl-kube":   {"internal/kube"},

	// The documents, and the site that is made of them.
	"":              {},
	"internal/docs": {"", "internal/near", "web"},

	"api":              {"internal/near"},
	"api/spec":         {},
	"internal/gen":     {"api", "internal/config", "internal/version"},
	"client":           {"api", "internal/place", "internal/rpc", "internal/wire"},
	"internal/wire":    {"api"},
	"internal/rpc":     {"api", "internal/wire"},
	"internal/near":    {},
	"internal/recent":  {},
	"internal/version": {},
	"internal/place":   {},

	// What users write: the contract and the client.
	"examples/build-stream":     {"api", "client"},
	"examples/kubernetes-batch": {"api", "client"},

	// For tests alone: no other row names it.
	"internal/testkit": {"api"},

	// The runner is copied to where sessions live.
	"internal/link":    {"api"},
	"internal/output":  {"api"},
	"internal/process": {"api", "internal/process/nofile"},
	"internal/confine": {"internal/process", "internal/process/nofile"},

	// What package syscall does at its beginning comes after it, so it imports nothing.
	"internal/process/nofile": {},

	"internal/limits":    {"api", "internal/confine", "internal/process"},
	"internal/isolation": {"api", "internal/confine", "internal/process"},
	"internal/egress":    {},
	"internal/shell":     {"api", "internal/output", "internal/process"},
	"internal/search":    {"api", "internal/link"},
	"internal/export":    {"api", "internal/link", "internal/output", "internal/search"},
	"internal/runner":    {"api", "internal/confine", "internal/egress", "internal/export", "internal/isolation", "internal/limits", "internal/link", "internal/output", "internal/process", "internal/recent", "internal/search", "internal/shell", "internal/terminal", "internal/version"},

	// Terminals. The screen model knows nothing but bytes.
	"internal/terminal":        {"api", "internal/link", "internal/output", "internal/process", "internal/recent", "internal/search", "internal/terminal/cast", "internal/terminal/vt"},
	"internal/terminal/vt":     {},
	"internal/terminal/cast":   {},
	"internal/terminal/render": {"internal/terminal/vt"},
	"internal/terminal/view":   {"internal/terminal/vt"},

	// Dialogues with coding agents. What their programs say is understood without any input or output.
	"internal/dialogue/agent":         {"api"},
	"internal/dialogue/agent/claude":  {"api", "internal/dialogue/agent", "internal/recent"},
	"internal/dialogue/agent/codex":   {"api", "internal/dialogue/agent", "internal/dialogue/agent/jsonrpc", "internal/recent"},
	"internal/dialogue/agent/acp":     {"api", "internal/dialogue/agent", "internal/dialogue/agent/jsonrpc"},
	"internal/dialogue/agent/jsonrpc": {"api", "internal/dialogue/agent", "internal/recent"},
	"internal/dialogue/transcript":    {"api", "internal/recent"},
	"internal/dialogue": {"api", "client", "internal/dialogue/agent", "internal/dialogue/agent/acp", "internal/dialogue/agent/claude",
		"internal/dialogue/agent/codex", "internal/dialogue/transcript", "internal/journal", "internal/link", "internal/session"},

	// The daemon. A transport sees the contract and nothing behind it.
	"web":              {},
	"internal/login":   {"api"},
	"internal/logring": {"api"},
	"internal/doctor":  {"api", "internal/process"},
	"internal/metrics": {},
	"internal/audit":   {"api", "internal/metrics"},
	"internal/hook":    {"api", "internal/process", "internal/version"},
	"internal/trace":   {"api", "internal/metrics", "internal/recent"},
	"internal/server":  {"api", "api/spec", "internal/login", "internal/metrics", "internal/near", "internal/place", "internal/rpc", "internal/version", "internal/wire", "web"},
	"internal/mcp":     {"api", "internal/near", "internal/version", "internal/wire"},
	"internal/config":  {"api", "internal/near", "internal/place"},
	"internal/archive": {"api", "internal/export", "internal/link", "internal/output", "internal/terminal"},
	"internal/journal": {"api", "internal/link", "internal/metrics"},
	"internal/session": {"api", "internal/archive", "internal/journal", "internal/link", "internal/metrics", "internal/search", "internal/terminal/cast", "internal/version"},
	"internal/stream":  {"api", "internal/journal", "internal/link", "internal/session"},
	"internal/wait":    {"api", "internal/link", "internal/search", "internal/session"},
	"internal/service": {"api", "internal/dialogue", "internal/link", "internal/process", "internal/runtimes", "internal/search", "internal/session", "internal/stream", "internal/version", "internal/wait"},
	"internal/state":   {"api", "internal/place"},

	"internal/runtimes": {"api", "internal/near", "internal/session"},

	// The places of sessions.
	"internal/runtimes/runners":    {"api", "internal/state"},
	"internal/runtimes/host":       {"api", "internal/config", "internal/limits", "internal/link", "internal/process", "internal/runtimes/runners", "internal/session", "internal/state", "internal/wire"},
	"internal/runtimes/ssh":        {"api", "internal/process", "internal/runtimes/remote", "internal/runtimes/runners", "internal/session"},
	"internal/runtimes/remote":     {"api", "internal/link", "internal/runtimes/runners", "internal/session", "internal/state"},
	"internal/runtimes/docker":     {"api", "internal/process", "internal/runtimes/remote", "internal/runtimes/runners", "internal/session"},
	"internal/runtimes/kubernetes": {"api", "internal/kube/op", "internal/process", "internal/runtimes/remote", "internal/runtimes/runners", "internal/session"},
	"internal/runtimes/trl":        {"api", "client", "internal/link", "internal/runtimes/remote", "internal/session"},
	// The program that speaks with Kubernetes. Only it has the libraries for that.
	"internal/kube":    {"api", "internal/kube/op"},
	"internal/kube/op": {"api"},

	"internal/daemon": {"api", "internal/archive", "internal/audit", "internal/config", "internal/dialogue", "internal/doctor", "internal/hook", "internal/journal", "internal/link", "internal/login", "internal/logring", "internal/mcp", "internal/metrics", "internal/place", "internal/process", "internal/runtimes", "internal/runtimes/host",
		"internal/runtimes/docker", "internal/runtimes/kubernetes", "internal/runtimes/remote", "internal/runtimes/runners", "internal/runtimes/ssh", "internal/runtimes/trl",
		"internal/server", "internal/service", "internal/session", "internal/state", "internal/trace", "internal/version"},

	// The command line. The interactive programs know no command.
	"internal/cli/ui":     {"api", "internal/terminal/vt"},
	"internal/cli/words":  {"api"},
	"internal/cli/early":  {"api", "internal/cli/words", "internal/place", "internal/wire"},
	"internal/cli/attach": {"api", "client", "internal/cli/ui", "internal/terminal/view"},
	"internal/cli/chat":   {"api", "client", "internal/cli/early", "internal/cli/ui"},
	"internal/cli": {"api", "api/spec", "client", "internal/audit", "internal/cli/attach", "internal/cli/chat", "internal/cli/early", "internal/cli/ui", "internal/cli/words", "internal/config", "internal/daemon", "internal/docs", "internal/doctor", "internal/mcp", "internal/near", "internal/place", "internal/runner",
		"internal/terminal/cast", "internal/terminal/render", "internal/terminal/view", "internal/terminal/vt", "internal/version", "internal/wire"},
}

// mayUse are the other modules a package may import directly.
var mayUse = map[string][]string{
	"internal/cli":       {"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sys", "golang.org/x/term", "rsc.io/qr"},
	"internal/cli/early": {"golang.org/x/sys"},
	"internal/doctor":    {"golang.org/x/sys"},
	"internal/config":    {"github.com/BurntSushi/toml", "github.com/spf13/pflag", "golang.org/x/sys"},
	"internal/server":    {"github.com/coder/websocket", "golang.org/x/sys", "google.golang.org/grpc", "google.golang.org/protobuf"},
	"client":             {"google.golang.org/grpc"},
	"internal/rpc":       {"google.golang.org/genproto", "google.golang.org/grpc", "google.golang.org/protobuf"},
	"internal/mcp":       {"github.com/modelcontextprotocol/go-sdk"},
	"internal/trace":     {"go.opentelemetry.io/otel"},
	"internal/wire":      {"golang.org/x/sys"},
	"internal/place":     {"golang.org/x/sys"},
	"internal/daemon":    {"golang.org/x/sys"},
	"internal/process":   {"golang.org/x/sys"},
	"internal/limits":    {"golang.org/x/sys"},
	"internal/confine":   {"golang.org/x/sys"},
	"internal/isolation": {"golang.org/x/sys"},
	"internal/egress":    {"golang.org/x/sys"},
	"internal/shell":     {"golang.org/x/sys"},
	"internal/runner":    {"golang.org/x/sys"},
	"internal/output":    {"golang.org/x/sys"},
	"internal/archive":   {"golang.org/x/sys"},
	"internal/link":      {"golang.org/x/sys"},

	"internal/runtimes/host":    {"golang.org/x/sys"},
	"internal/kube":             {"k8s.io/apimachinery", "k8s.io/client-go", "k8s.io/streaming", "sigs.k8s.io/yaml"},
	"internal/runtimes/runners": {"golang.org/x/sys"},
	"internal/runtimes/docker":  {"github.com/containerd/errdefs", "github.com/distribution/reference", "github.com/docker/go-connections", "github.com/moby/moby", "github.com/opencontainers/image-spec"},

	"internal/cli/attach": {"golang.org/x/sys"},
	"internal/cli/chat":   {"golang.org/x/sys", "golang.org/x/term"},
	"internal/cli/ui":     {"github.com/spf13/cobra", "golang.org/x/sys", "golang.org/x/term"},
}

// forTests reports whether a package only serves tests: all below tests/, and
// those that are named after what they test, such as sessiontest.
func forTests(name string) bool {
	return strings.HasPrefix(name, "tests/") || strings.HasSuffix(name, "test")
}

func TestImportsGoOneWay(t *testing.T) {
	for _, goos := range systems {
		for _, p := range packages(t, goos) {
			name := p.rel()
			if !p.ours() || forTests(name) {
				continue
			}
			allowed, known := mayImport[name]
			if !known {
				t.Errorf("%s: %s: is not in the table of packages (tests/repo/imports_test.go, docs/architecture.md)", goos, name)
				continue
			}
			for _, path := range p.Imports {
				switch {
				case isOurs(path):
					if forTests(goPackage{ImportPath: path}.rel()) {
						t.Errorf("%s: %s: imports %s, which is for tests", goos, name, path)
					} else if !slices.Contains(allowed, goPackage{ImportPath: path}.rel()) {
						t.Errorf("%s: %s: must not import %s", goos, name, path)
					}
				case strings.Contains(strings.Split(path, "/")[0], "."):
					if !slices.ContainsFunc(mayUse[name], func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") }) {
						t.Errorf("%s: %s: must not import %s", goos, name, path)
					}
				}
			}
		}
	}
}

func TestTableOfPackagesHasNoGhosts(t *testing.T) {
	have := map[string]bool{}
	for _, p := range packages(t, "linux") {
		have[p.rel()] = p.ours()
	}
	for name := range mayImport {
		if !have[name] {
			t.Errorf("%s: is in the table of packages and does not exist", name)
		}
	}
}

// TestRunnerIsLight looks at everything the runner is linked from, however deep.
func TestRunnerIsLight(t *testing.T) {
	heavy := []string{"os/exec", "net/http", "crypto/tls", "text/template", "html/template", "go/ast", "encoding/gob", "encoding/xml", "runtime/metrics"}
	for _, goos := range systems {
		found := false
		for _, p := range packages(t, goos) {
			if p.rel() != "cmd/trl-runner" {
				continue
			}
			found = true
			for _, dep := range p.Deps {
				foreign := strings.Contains(strings.Split(dep, "/")[0], ".") && !isOurs(dep) && !strings.HasPrefix(dep, "golang.org/x/sys/")
				if foreign || slices.Contains(heavy, dep) {
					t.Errorf("%s: cmd/trl-runner: is linked with %s", goos, dep)
				}
			}
		}
		if !found {
			t.Errorf("%s: cmd/trl-runner: not found", goos)
		}
	}
}

// TestKubernetesIsApart keeps the libraries of Kubernetes out of trl: their initialisation costs every
// start of the program milliseconds and megabytes. The program trl-kube has them.
func TestKubernetesIsApart(t *testing.T) {
	for _, goos := range systems {
		has := map[string]bool{}
		for _, p := range packages(t, goos) {
			for _, dep := range p.Deps {
				if strings.HasPrefix(dep, "k8s.io/") || strings.HasPrefix(dep, "sigs.k8s.io/") {
					has[p.rel()] = true
				}
			}
		}
		if has["cmd/trl"] || has["cmd/trl-runner"] || !has["cmd/trl-kube"] {
			t.Errorf("%s: linked with Kubernetes: %v; must be cmd/trl-kube alone of the programs", goos, has)
		}
	}
}

// TestEarlyIsLight keeps packages that are initialised late out of internal/cli/early: it would begin
// after them.
func TestEarlyIsLight(t *testing.T) {
	for _, p := range packages(t, "linux") {
		if p.rel() != "internal/cli/early" {
			continue
		}
		for _, late := range []string{"crypto/rand", "io/ioutil", "log/slog", "math/rand", "math/rand/v2", "net", "os/exec", "os/user", "path/filepath", "regexp"} {
			if slices.Contains(p.Deps, late) {
				t.Errorf("imports %s; see GODEBUG=inittrace=1 trl -V for the order of packages", late)
			}
		}
	}
}

// TestOneWayToStartChildren keeps os/exec out of daemon and runner: its Wait and
// the reaper's wait4(-1) would steal each other's children (ADR 5).
func TestOneWayToStartChildren(t *testing.T) {
	for _, goos := range systems {
		for _, p := range packages(t, goos) {
			name := p.rel()
			if !p.ours() || name == "internal/cli" || name == "client" || forTests(name) {
				continue
			}
			if slices.Contains(p.Imports, "os/exec") {
				t.Errorf("%s: %s: imports os/exec; children are started by process.Reaper", goos, name)
			}
		}
	}
}
