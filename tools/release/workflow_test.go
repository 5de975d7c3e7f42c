package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// issuer certifies the identities of workflows of GitHub.
const issuer = "https://token.actions.githubusercontent.com"

// workflow is a file that GitHub runs.
type workflow struct {
	path string
	On   struct{ Push struct{ Tags []string } }
	Jobs map[string]job
}

type job struct {
	Permissions map[string]string
	Steps       []step
}

type step struct {
	Uses, Run string
	With, Env map[string]string
}

// checked runs the job of the workflow that makes a release, with the files of this one, and types the commands by
// which docs/releasing.md checks what was published. Stand-ins take the place of make, go, cosign, gh, skopeo and the
// action that attests. So the test compares the names of files, the identity, the issuer and the repository that the page and the
// workflow have. It does not test signatures and attestations themselves: those need GitHub and Sigstore.
func checked(t *testing.T, out string) {
	w := workflow{path: ".github/workflows/release.yml"}
	if err := yaml.Unmarshal(read(t, filepath.Join(root, w.path)), &w); err != nil {
		t.Fatal(err)
	}
	repository := strings.TrimPrefix(strings.Fields(string(read(t, filepath.Join(root, "go.mod"))))[1], "github.com/")
	g := newGitHub(t, out, repository, "v0.1.0")
	if !w.starts("v0.1.0") || w.starts("v0.1") || w.starts("0.1.0") {
		t.Errorf("%s: starts for %q", w.path, w.On.Push.Tags)
	}
	g.run(t, w, w.Jobs["release"])

	typed := strings.Join(commands(t, "docs/releasing.md", "## Check what you downloaded"), "\n")
	for _, program := range []string{"cosign ", "gh "} {
		if !strings.Contains("\n"+typed, "\n"+program) {
			t.Errorf("docs/releasing.md: does not check with %s", program)
		}
	}
	typed = strings.Replace(typed, "linux_amd64", here.os+"_"+here.arch, 1)
	if out, err := g.shell(g.published, typed); err != nil {
		t.Fatalf("%s: %s\n%s", typed, err, out)
	}
	bundle := filepath.Join(g.published, "SHA256SUMS.sigstore.json")
	own := string(read(t, bundle))
	for what, change := range map[string][2]string{
		"another repository":         {"/" + repository + "/", "/" + repository + "2/"},
		"another owner":              {"/" + repository + "/", "/someone" + repository[strings.Index(repository, "/"):] + "/"},
		"another workflow":           {filepath.Base(w.path), "ci.yml"},
		"a branch":                   {"@refs/tags/v0.1.0", "@refs/heads/main"},
		"a text before the identity": {"https://github.com", "https://example.org/https://github.com"},
		"another host":               {"https://github.com", "https://github-com"},
		"another issuer":             {issuer, "https://accounts.example.org"},
		"another blob":               {"  -", "0  -"},
	} {
		forged := strings.Replace(own, change[0], change[1], 1)
		if err := os.WriteFile(bundle, []byte(forged), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := g.shell(g.published, typed); forged == own || err == nil || !strings.Contains(out, "cosign verify-blob") {
			t.Errorf("%s: the commands of the page accept %q: %s", what, forged, out)
		}
	}
}

// starts reports whether the workflow runs for a tag.
func (w workflow) starts(tag string) bool {
	for _, pattern := range w.On.Push.Tags {
		// In these patterns + and [] are as in regular expressions, and a dot is a dot.
		if regexp.MustCompile(`^` + strings.NewReplacer(".", `\.`, "*", "[^/]*").Replace(pattern) + `$`).MatchString(tag) {
			return true
		}
	}
	return false
}

// gitHub runs steps of a workflow for a tag.
type gitHub struct {
	repository, tag         string
	checkout, published     string // directories
	bin, attested, testdata string
	env                     []string
}

func newGitHub(t *testing.T, release, repository, tag string) *gitHub {
	t.Helper()
	g := &gitHub{
		repository: repository, tag: tag, checkout: t.TempDir(), published: t.TempDir(), bin: t.TempDir(), attested: t.TempDir(), testdata: absolute(t, "testdata"),
	}
	owner, _, _ := strings.Cut(repository, "/")
	g.env = append(os.Environ(), "PATH="+g.bin+":"+os.Getenv("PATH"), "RELEASE="+release, "PUBLISHED="+g.published, "ATTESTED="+g.attested,
		"GITHUB_REPOSITORY="+repository, "GITHUB_REPOSITORY_OWNER="+owner, "GITHUB_REF_NAME="+tag, "GITHUB_ACTOR=someone", "RUNNER_TEMP="+t.TempDir())
	g.program(t, "gh", `exec "`+g.testdata+`/gh.sh" "$@"`)
	// Links: nothing may change the files once they are made.
	g.program(t, "make", `[ "$*" = release ]; mkdir -p build/release; ln -f "$RELEASE"/* build/release`)
	g.program(t, "go", `[ "$1 $2 $3 $4" = "-C tools run ./release" ]; echo notes`)
	g.program(t, "skopeo", `case $1 in
login) cat >/dev/null ;;
copy) for word; do case $word in oci-archive:*) [ -s "${word#*:}" ] ;; digest) echo sha256:0 >digest ;; esac; done ;;
*) exit 64 ;;
esac`)
	return g
}

// program puts a script into the path of the steps.
func (g *gitHub) program(t *testing.T, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.bin, name), []byte("#!/bin/sh\nset -e\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// run runs the steps of a job.
func (g *gitHub) run(t *testing.T, w workflow, j job) {
	t.Helper()
	for right, needed := range map[string]string{"id-token": "sign", "attestations": "attest", "contents": "publish"} {
		if j.Permissions[right] != "write" {
			t.Errorf("%s: has no right to %s: %s is %q", w.path, needed, right, j.Permissions[right])
		}
	}
	identity := fmt.Sprintf("https://github.com/%s/%s@refs/tags/%s", g.repository, w.path, g.tag)
	for _, s := range j.Steps {
		action, _, _ := strings.Cut(s.Uses, "@")
		switch action {
		case "":
			env := []string{"ISSUER=" + issuer, "IDENTITY=" + identity}
			for name, value := range s.Env {
				env = append(env, name+"="+value)
			}
			if out, err := g.shell(g.checkout, s.Run, env...); err != nil {
				t.Fatalf("%s: %s: %s\n%s", w.path, s.Run, err, out)
			}
		case "sigstore/cosign-installer":
			g.program(t, "cosign", `exec "`+g.testdata+`/cosign.sh" "$@"`)
		case "actions/attest-build-provenance":
			sums := read(t, filepath.Join(g.checkout, s.With["subject-checksums"]))
			list := filepath.Join(g.attested, g.repository)
			if err := os.MkdirAll(filepath.Dir(list), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(list, sums, 0o600); err != nil {
				t.Fatal(err)
			}
		case "actions/checkout", "actions/setup-go":
		default:
			t.Errorf("%s: the test does not know what %s does", w.path, action)
		}
	}
}

// shell runs a script as a step does.
func (g *gitHub) shell(dir, script string, env ...string) (string, error) {
	cmd := exec.Command("bash", "-ec", script)
	cmd.Dir, cmd.Env = dir, append(g.env[:len(g.env):len(g.env)], env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
