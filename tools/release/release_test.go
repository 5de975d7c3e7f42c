package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const root = "../.."

// published is where the newest release is.
const published = "https://github.com/trl-dev/trl/releases/latest/download"

var here = platform{runtime.GOOS, runtime.GOARCH}

// newRelease returns a release of this machine's platform alone, with the programs of make build.
func newRelease(t *testing.T, version string) *release {
	t.Helper()
	level = gzip.BestSpeed
	trl := filepath.Join(root, "bin", "trl")
	return &release{
		root: root, out: t.TempDir(), work: t.TempDir(), version: version, time: time.Unix(1_700_000_000, 0).UTC(), self: trl,
		programs: map[platform]programs{here: {trl: trl, runner: filepath.Join(root, "bin", "trl-runner")}},
	}
}

func pack(t *testing.T, r *release) string {
	t.Helper()
	if err := r.pack(); err != nil {
		t.Fatalf("%s (run make build first)", err)
	}
	return r.out
}

// skip says what is not tested, where go test -v is not needed to see it.
func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	fmt.Fprintf(os.Stderr, "SKIPPED: "+format+"\n", args...)
	t.SkipNow()
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %s\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRelease(t *testing.T) {
	out := pack(t, newRelease(t, "0.1.0"))
	name := "trl_0.1.0_" + here.os + "_" + here.arch
	t.Run("same bytes", func(t *testing.T) {
		var dirs []string
		for range 2 {
			r := newRelease(t, "0.1.0")
			r.programs[here] = programs{trl: filepath.Join(root, "bin", "trl-runner"), runner: filepath.Join(root, "bin", "trl-runner")} // smaller
			dirs = append(dirs, pack(t, r))
		}
		sameBytes(t, dirs[0], dirs[1])
	})
	t.Run("checksums", func(t *testing.T) { checksums(t, out) })
	t.Run("workflow", func(t *testing.T) { checked(t, out) })
	t.Run("archive", func(t *testing.T) { archive(t, filepath.Join(out, name+".tar.gz"), name) })
	t.Run("bom", func(t *testing.T) { bom(t, filepath.Join(out, name+".cdx.json")) })
	t.Run("installer", func(t *testing.T) { installer(t, out, name) })
	t.Run("formula", func(t *testing.T) { formula(t, out) })
	if here.os != "linux" {
		skip(t, "packages and images are for Linux")
	}
	t.Run("images", func(t *testing.T) { images(t, out) })
	t.Run("docker", func(t *testing.T) { docker(t, out) })
	next := newRelease(t, "0.2.0")
	script := filepath.Join(t.TempDir(), "reload.sh")
	if err := os.WriteFile(script, []byte(reload), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, m := range managers {
		t.Run(m.format, func(t *testing.T) {
			if err := next.makePackage(here, m.format, script); err != nil {
				t.Fatal(err)
			}
			clean(t, m, filepath.Join(out, name+"."+m.format), filepath.Join(next.out, next.name(here)+"."+m.format))
		})
	}
	t.Run("header of the rpm", func(t *testing.T) { rpm(t, filepath.Join(out, name+".rpm")) })
}

// TestSameProgram builds the runner twice: here, with what the go command has cached, and from a copy of
// the sources in another directory, with an empty cache.
func TestSameProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the runner and its packages anew")
	}
	dir := absolute(t, root)
	first := newRelease(t, "0.1.0")
	one, err := first.compile(dir, here, "trl-runner")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum", "api", "cmd", "internal"} {
		run(t, "cp", "-R", filepath.Join(dir, name), filepath.Join(elsewhere, name))
	}
	t.Setenv("GOCACHE", t.TempDir())
	other, err := newRelease(t, "0.1.0").compile(elsewhere, here, "trl-runner")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(read(t, one), read(t, other)) {
		t.Errorf("two builds of the runner differ: compare %s and %s with go version -m", one, other)
	}
	info, err := buildinfo.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["-trimpath"] != "true" || settings["CGO_ENABLED"] != "0" || settings["vcs.revision"] != "" {
		t.Errorf("built with %v", settings)
	}
	// The programs that make build makes have the same flags. None names the directory of its sources.
	for _, path := range []string{one, filepath.Join(root, "bin", "trl"), filepath.Join(root, "bin", "trl-runner")} {
		if bytes.Contains(read(t, path), []byte(dir+"/internal")) {
			t.Errorf("%s contains the path %s", path, dir)
		}
	}
}

// TestNotes checks what a release says about itself.
func TestNotes(t *testing.T) {
	const log = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2027-01-02\n\nThe second: see [api](docs/api.md#stability), [it](https://example.org).\n\n### Added\n\n- A thing.\n\n" +
		"## [0.1.0] - 2026-12-01\n\nThe first.\n"
	for version, want := range map[string]string{
		"0.2.0":      "The second: see [api](https://github.com/trl-dev/trl/blob/v0.2.0/docs/api.md#stability), [it](https://example.org).\n\n### Added\n\n- A thing.\n",
		"0.1.0":      "The first.\n",
		"Unreleased": "", "0.3.0": "", "0.1": "",
	} {
		if got := notes(log, version); got != want {
			t.Errorf("%s: %q", version, got)
		}
	}
	// That is what the workflow publishes.
	if line := `go -C tools run ./release -root .. -version "${GITHUB_REF_NAME#v}" -notes >notes.md`; !strings.Contains(string(read(t, filepath.Join(root, ".github/workflows/release.yml"))), line) {
		t.Errorf("release.yml does not run %s", line)
	}
	real := string(read(t, filepath.Join(root, "CHANGELOG.md")))
	if got := notes(real, "0.1.0"); len(got) < 1000 || strings.Contains(got, "](docs/") || strings.Contains(got, "\n## ") {
		t.Errorf("the notes of 0.1.0 are %q", got)
	}
}

// TestVersionOfARelease checks that a tag which does not fit the sources publishes nothing.
func TestVersionOfARelease(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ source, log, version, problem string }{
		{"0.2.0", "## [Unreleased]\n\n## [0.2.0] - 2027-01-02\n\n- A thing.\n", "0.2.0", ""},
		{"0.2.0", "## [0.2.0] - 2027-01-02\n\n- A thing.\n", "0.2.0", ""},
		{"0.2.0", "", "0.2.0-3-gabc", ""},
		{"0.2.0", "", "0.2.0+abc", ""},
		{"0.2.0", "", "0.3.0", "the tag says 0.3.0"},
		{"0.2.0", "## [0.1.0] - 2026-12-01\n\nThe first.\n", "0.2.0", "has no section about 0.2.0"},
		{"0.2.0", "## [Unreleased]\n\n- Another.\n\n## [0.2.0] - 2027-01-02\n\n- A thing.\n", "0.2.0", "under Unreleased"},
		{"0.2.0", "", "", "-version is missing"},
	} {
		if err := errors.Join(os.MkdirAll(dir+"/internal/version", 0o755), os.WriteFile(dir+"/CHANGELOG.md", []byte(c.log), 0o644),
			os.WriteFile(dir+"/internal/version/version.go", []byte("package version\n\nvar Version = \""+c.source+"\"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
		err := (&release{root: dir, version: c.version}).check()
		if got := fmt.Sprint(err); (c.problem == "") != (err == nil) || !strings.Contains(got, c.problem) && err != nil {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func sameBytes(t *testing.T, one, other string) {
	entries, err := os.ReadDir(one)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !bytes.Equal(read(t, filepath.Join(one, e.Name())), read(t, filepath.Join(other, e.Name()))) {
			t.Errorf("%s: two builds differ", e.Name())
		}
	}
}

func checksums(t *testing.T, out string) {
	listed := map[string]string{}
	for line := range strings.Lines(string(read(t, filepath.Join(out, "SHA256SUMS")))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = sum
	}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "SHA256SUMS" && listed[e.Name()] != fmt.Sprintf("%x", sha256.Sum256(read(t, filepath.Join(out, e.Name())))) {
			t.Errorf("%s: the checksum is %q", e.Name(), listed[e.Name()])
		}
	}
	if len(listed) != len(entries)-1 {
		t.Errorf("%d checksums for %d files", len(listed), len(entries)-1)
	}
}

// content returns the files of an archive.
func content(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	if unpacked, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		if data, err = io.ReadAll(unpacked); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 1_700_000_000 {
			t.Errorf("%s: %+v", h.Name, h)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func archive(t *testing.T, path, top string) {
	files := content(t, read(t, path))
	want := []string{"bin/trl", "share/man/man1/trl.1", "share/man/man1/trl-run.1", "share/man/man7/trl-files.7", "share/doc/trl/LICENSE",
		"share/bash-completion/completions/trl", "share/zsh/site-functions/_trl", "share/fish/vendor_completions.d/trl.fish"}
	if here.os == "linux" {
		want = append(want, "share/trl/systemd/user/trl.service", "share/trl/systemd/system/trl@.socket")
	}
	for _, name := range want {
		if len(files[top+"/"+name]) == 0 {
			t.Errorf("%s is missing", name)
		}
	}
	for name := range files {
		if !strings.HasPrefix(name, top+"/") {
			t.Errorf("%s is outside of %s", name, top)
		}
	}
}

func bom(t *testing.T, path string) {
	var b struct {
		BOMFormat, SpecVersion, SerialNumber string
		Components                           []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal(read(t, path), &b); err != nil {
		t.Fatal(err)
	}
	if b.BOMFormat != "CycloneDX" || !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(b.SerialNumber) {
		t.Errorf("%+v", b)
	}
	names := map[string]bool{}
	for _, c := range b.Components {
		names[c.Name] = c.Version != "" && strings.HasPrefix(c.PURL, "pkg:golang/")
	}
	if !names["std"] || !names["golang.org/x/sys"] || !names["github.com/spf13/cobra"] {
		t.Errorf("%v", names)
	}
}

// installer installs from a server, with the command of the README and of the quick start, upgrades, and
// refuses an archive that was tampered with.
func installer(t *testing.T, out, name string) {
	if _, err := exec.LookPath("curl"); err != nil {
		skip(t, "curl is not installed; install.sh is not tested")
	}
	server := httptest.NewServer(http.FileServer(http.Dir(out)))
	defer server.Close()
	home, who := t.TempDir(), (*syscall.Credential)(nil)
	if os.Getuid() == 0 { // root is not necessary: another user installs
		who = &syscall.Credential{Uid: 65534, Gid: 65534}
		var err error
		if home, err = os.MkdirTemp("/tmp", "trl-install"); err == nil { // every user can enter /tmp
			err = os.Chown(home, int(who.Uid), int(who.Gid))
		}
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(home)
	}
	install := func(page, heading string) (string, error) {
		lines := strings.Join(commands(t, page, heading), "\n")
		if !strings.Contains(lines, published) {
			t.Fatalf("%s: the command that installs trl is %q", page, lines)
		}
		cmd := exec.Command("bash", "-o", "pipefail", "-ec", strings.ReplaceAll(lines, published, server.URL))
		cmd.Dir, cmd.SysProcAttr = home, &syscall.SysProcAttr{Credential: who}
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TRL_BASE_URL=" + server.URL}
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	program := filepath.Join(home, ".local", "bin", "trl")
	// The second installs over the first.
	for _, when := range [][2]string{{"README.md", "## Install"}, {"docs/quickstart.md", "## Install"}} {
		text, err := install(when[0], when[1])
		if err != nil || !strings.Contains(text, "is in "+filepath.Dir(program)) || !strings.Contains(text, "PATH") {
			t.Fatalf("%s: %v: %s", when, err, text)
		}
		if got := run(t, program, "--version"); !strings.HasPrefix(got, "trl ") {
			t.Errorf("%s: printed %q", when, got)
		}
	}
	if entries, _ := os.ReadDir(filepath.Dir(program)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(out, name+".tar.gz")
	whole := read(t, archive)
	defer os.WriteFile(archive, whole, 0o600)
	if err := os.WriteFile(archive, append(whole[:len(whole):len(whole)], 0), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := install("README.md", "## Install")
	if _, there := os.Stat(program); err == nil || there == nil || !strings.Contains(text, "nothing was installed") {
		t.Errorf("installed an archive with the wrong checksum: %s", text)
	}
}

// formula loads the formula as Homebrew does, compares what it says for each platform with the archives,
// installs the archive of this platform, and runs the test of the formula.
func formula(t *testing.T, out string) {
	if _, err := exec.LookPath("ruby"); err != nil {
		skip(t, "ruby is not installed; the Homebrew formula is not tested")
	}
	path := filepath.Join(out, "trl.rb")
	run(t, "ruby", "-c", path)
	sums := string(read(t, filepath.Join(out, "SHA256SUMS")))
	for _, p := range platforms {
		got := run(t, "ruby", "testdata/brew.rb", path, p.os, p.arch, "info")
		name := "trl_0.1.0_" + p.os + "_" + p.arch + ".tar.gz"
		url, sum, _ := strings.Cut(strings.TrimSpace(got), " ")
		if url != "https://github.com/trl-dev/trl/releases/download/v0.1.0/"+name {
			t.Errorf("%s: the address is %s", p, url)
		}
		if p == here && !strings.Contains(sums, sum+"  "+name+"\n") {
			t.Errorf("%s: the checksum %s is not in SHA256SUMS", p, sum)
		}
	}
	prefix := t.TempDir()
	typeBrew(t, out, prefix)
	for _, name := range []string{"bin/trl", "share/man/man1/trl-run.1", "share/man/man7/trl-files.7", "etc/bash_completion.d/trl",
		"share/zsh/site-functions/_trl", "share/fish/vendor_completions.d/trl.fish"} {
		if len(read(t, filepath.Join(prefix, name))) == 0 {
			t.Errorf("%s is empty", name)
		}
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// images checks the images with all of their digests, and starts the daemon in the file system of its image.
func images(t *testing.T, out string) {
	for name, program := range map[string]string{"trl": "/usr/bin/trl", "trl-runner": "/trl-runner"} {
		dir := t.TempDir()
		unpack(t, dir, content(t, read(t, filepath.Join(out, name+"_0.1.0_oci.tar"))))
		top, err := layout.ImageIndexFromPath(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(top); err != nil {
			t.Errorf("%s: %s", name, err)
		}
		list, err := top.IndexManifest()
		if err != nil || len(list.Manifests) != 1 {
			t.Fatalf("%s: %+v, %v", name, list, err)
		}
		// The image store of containerd takes the first name, skopeo the second.
		names := list.Manifests[0].Annotations
		if names["io.containerd.image.name"] != "ghcr.io/trl-dev/"+name+":0.1.0" || names["org.opencontainers.image.ref.name"] != "0.1.0" {
			t.Errorf("%s: the names are %v", name, names)
		}
		index, err := top.ImageIndex(list.Manifests[0].Digest)
		if err != nil {
			t.Fatal(err)
		}
		all, err := index.IndexManifest()
		if err != nil || len(all.Manifests) != 1 || all.Manifests[0].Platform.Architecture != here.arch {
			t.Fatalf("%s: %+v, %v", name, all, err)
		}
		one, err := index.Image(all.Manifests[0].Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := one.ConfigFile()
		if err != nil || config.Architecture != here.arch || !slices.Equal(config.Config.Entrypoint, []string{program}) || config.Created.Unix() != 1_700_000_000 {
			t.Errorf("%s: %+v, %v", name, config, err)
		}
		layers, err := one.Layers()
		if err != nil || len(layers) != 1 {
			t.Fatalf("%s: %d layers, %v", name, len(layers), err)
		}
		plain, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(plain)
		if err != nil {
			t.Fatal(err)
		}
		layer := content(t, data)
		if len(layer[strings.TrimPrefix(program, "/")]) == 0 {
			t.Fatalf("%s: has no %s", name, program)
		}
		if os.Getuid() != 0 || name != "trl" {
			continue
		}
		files := t.TempDir()
		unpack(t, files, layer)
		if got := run(t, "chroot", "--userspec=10001:10001", files, program, "--version"); !strings.HasPrefix(got, "trl ") {
			t.Errorf("printed %q", got)
		}
	}
}

// unpack writes the files of an archive into a directory.
func unpack(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			_ = os.MkdirAll(path, 0o755)
		} else if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
}

// docker loads the images, that of the daemon with the command of the page, into an engine of its own, which has no
// network, and runs them.
func docker(t *testing.T, out string) {
	withdocker := filepath.Join(t.TempDir(), "withdocker")
	run(t, "go", "-C", root, "build", "-o", withdocker, "./tests/withdocker")
	got := run(t, withdocker, "sh", "-ec", `
		if [ -z "${DOCKER_HOST:-}" ]; then echo no engine; exit; fi
		cd "$1"
		eval "$3" >&2
		docker load --quiet --input trl-runner_0.1.0_oci.tar >&2
		docker run --rm --network none ghcr.io/trl-dev/trl-runner:0.1.0-$2 check
		id=$(docker run -d --network none ghcr.io/trl-dev/trl:0.1.0-$2 serve)
		until docker exec "$id" trl --no-start call system.ping >&2; do
			[ "$(docker inspect --format '{{.State.Running}}' "$id")" = true ]
		done
		docker exec "$id" trl --no-start call system.ping
		docker rm --force "$id" >&2`, "sh", out, here.arch, installs(t, "docker"))
	if strings.Contains(got, "no engine") {
		skip(t, "no Docker engine can be started here; the images are not run in one")
	}
	if !strings.Contains(got, `"arch":"`+here.arch+`"`) || !strings.Contains(got, `"uptime_s":`) {
		t.Errorf("printed %q", got)
	}
}

// manager installs and removes packages in a directory.
type manager struct {
	format          string
	first           func(t *testing.T, out, dir string) // types the command of the page
	install, remove func(dir, path string) []string
	version         func(dir string) []string // prints the installed version
}

var managers = []manager{
	{
		format: "deb",
		first:  typeApt,
		install: func(dir, path string) []string {
			return []string{"dpkg", "--root=" + dir, "--log=" + dir + "/dpkg.log", "--force-depends", "-i", path}
		},
		remove: func(dir, name string) []string {
			return []string{"dpkg", "--root=" + dir, "--log=" + dir + "/dpkg.log", "--purge", name}
		},
		version: func(dir string) []string {
			return []string{"dpkg-query", "--admindir=" + dir + "/var/lib/dpkg", "--show", "--showformat=${Version} ${db:Status-Status}", "trl"}
		},
	},
	{
		format: "rpm",
		first:  typeDnf,
		install: func(dir, path string) []string {
			return []string{"rpm", "--root", dir, "--nosignature", "--nodeps", "-U", path}
		},
		remove: func(dir, name string) []string { return []string{"rpm", "--root", dir, "--nodeps", "-e", name} },
		version: func(dir string) []string {
			return []string{"rpm", "--root", dir, "-q", "--queryformat", "%{VERSION} installed", "trl"}
		},
	},
}

// clean installs, runs, upgrades and removes a package in a directory that has nothing but busybox.
func clean(t *testing.T, m manager, first, second string) {
	cache, _ := os.UserCacheDir()
	busybox := filepath.Join(cache, "trl-test", "busybox-static", "bin", "busybox")
	_, noManager := exec.LookPath(m.install("", "")[0])
	if _, missing := os.Stat(busybox); noManager != nil || os.Getuid() != 0 || missing != nil {
		skip(t, "the %s is not installed here: it takes root, %s and busybox-static (tests/setup.sh)", m.format, m.install("", "")[0])
	}
	dir := t.TempDir()
	for _, d := range []string{"bin", "proc", "tmp", "root", "dev", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/rpm"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(dir+"/bin/busybox", read(t, busybox), 0o755), os.Symlink("busybox", dir+"/bin/sh"),
		os.WriteFile(dir+"/var/lib/dpkg/status", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	do := func(argv []string) string { return run(t, argv[0], argv[1:]...) }
	// A process namespace of its own: the daemon and its sessions end with it.
	inside := func(script string) string {
		return run(t, "unshare", "--mount", "--pid", "--fork", "sh", "-ec", `mount -t proc proc "$1/proc"; mount --bind /dev "$1/dev"
			exec chroot "$1" /bin/busybox env -i HOME=/root PATH=/usr/bin:/bin /bin/sh -c "$2"`, "sh", dir, script)
	}
	m.first(t, filepath.Dir(first), dir)
	if got := inside("trl run --shell sh 'echo hello'; trl stop 2>/dev/null"); !strings.HasPrefix(got, "hello\n") {
		t.Errorf("printed %q", got)
	}
	names := []string{"share/man/man1/trl-run.1.gz", "share/doc/trl/LICENSE", "share/zsh/site-functions/_trl", "share/bash-completion/completions/trl"}
	for _, name := range names {
		if m.format == "deb" {
			name = debianNames.Replace(name)
		}
		if info, err := os.Stat(filepath.Join(dir, "usr", name)); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Run("units", func(t *testing.T) { units(t, dir) })
	do(m.install(dir, second))
	if got := do(m.version(dir)); got != "0.2.0 installed" {
		t.Errorf("after the upgrade: %s", got)
	}
	if got := inside("trl --version"); !strings.HasPrefix(got, "trl ") {
		t.Errorf("printed %q", got)
	}
	do(m.remove(dir, "trl"))
	var left []string
	err := filepath.WalkDir(dir+"/usr", func(path string, e os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && !e.IsDir() {
			left = append(left, path)
		}
		return err
	})
	if err != nil || len(left) > 0 {
		t.Errorf("left after removal: %v, %v", left, err)
	}
}

// units has systemd look at the installed units, which must name the installed program.
func units(t *testing.T, dir string) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		skip(t, "systemd-analyze is not installed; the units of the packages are not checked")
	}
	copies := t.TempDir()
	paths, err := filepath.Glob(dir + "/usr/lib/systemd/*/*")
	if err != nil || len(paths) != 4 {
		t.Fatalf("%v, %v", paths, err)
	}
	args := []string{"verify", "--man=no"}
	for _, path := range paths {
		text := strings.ReplaceAll(string(read(t, path)), "ExecStart=/usr/bin/trl ", "ExecStart="+dir+"/usr/bin/trl ")
		if strings.HasSuffix(path, ".service") && !strings.Contains(text, "ExecStart="+dir) {
			t.Errorf("%s: does not start /usr/bin/trl", path)
		}
		path = filepath.Join(copies, filepath.Base(path))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	cmd := exec.Command(analyze, args...)
	cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+copies+":")
	out, err := cmd.CombinedOutput()
	out = regexp.MustCompile(`(?m)^.*Unknown key.*'DelegateSubgroup'.*$`).ReplaceAll(out, nil) // systemd before 254 ignores it
	if err != nil || strings.Contains(string(out), copies) {
		t.Errorf("%v: %s", err, out)
	}
}

func rpm(t *testing.T, path string) {
	if _, err := exec.LookPath("rpm"); err != nil {
		skip(t, "rpm is not installed; the rpm is not checked")
	}
	list := run(t, "rpm", "-qp", "--nosignature", "--list", path)
	for _, name := range []string{"/usr/bin/trl\n", "/usr/lib/systemd/system/trl@.service\n", "/usr/share/man/man1/trl.1.gz\n", "/usr/share/zsh/site-functions/_trl\n"} {
		if !strings.Contains(list, name) {
			t.Errorf("has no %q:\n%s", name, list)
		}
	}
	if got := run(t, "rpm", "-qp", "--nosignature", "--queryformat", "%{NAME} %{VERSION} %{LICENSE}", path); got != "trl 0.1.0 MIT" {
		t.Errorf("%q", got)
	}
	run(t, "rpm", "--checksig", "--nosignature", path)
}
