package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// commands returns the commands, one for each line, of the sh blocks below a heading of a page that need
// a release.
func commands(t *testing.T, page, heading string) []string {
	t.Helper()
	_, section, found := strings.Cut(string(read(t, filepath.Join(root, page))), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var all []string
	for _, part := range strings.Split(section, "<!-- needs: a release -->\n```sh\n")[1:] {
		block, _, _ := strings.Cut(part, "```\n")
		all = append(all, strings.Split(strings.TrimSpace(block), "\n")...)
	}
	if len(all) == 0 {
		t.Fatalf("%s, %s: has no block that needs a release", page, heading)
	}
	return all
}

// installs returns the commands by which docs/releasing.md installs with a program, for this machine.
func installs(t *testing.T, program string) string {
	t.Helper()
	var typed []string
	for _, command := range commands(t, "docs/releasing.md", "## Packages") {
		if strings.HasPrefix(strings.TrimPrefix(command, "sudo "), program+" ") {
			typed = append(typed, strings.Replace(command, "linux_amd64", "linux_"+here.arch, 1))
		}
	}
	if len(typed) == 0 {
		t.Fatalf("docs/releasing.md: has no command of %s", program)
	}
	return strings.Join(typed, "\n")
}

// TestCommandsOfThePackages: another test of this package types each command.
func TestCommandsOfThePackages(t *testing.T) {
	for _, command := range commands(t, "docs/releasing.md", "## Packages") {
		program, _, _ := strings.Cut(strings.TrimPrefix(command, "sudo "), " ")
		if !slices.Contains([]string{"apt", "dnf", "brew", "docker"}, program) {
			t.Errorf("docs/releasing.md: no test types %s", command)
		}
	}
}

// typeCommand types a command in a directory. The stand-ins are scripts for programs that this machine lacks, or
// that would change it.
func typeCommand(t *testing.T, dir, command string, standIns map[string]string, env ...string) {
	t.Helper()
	bin := t.TempDir()
	for name, script := range standIns {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nset -e\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-ec", command)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH")), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %s\n%s", command, err, out)
	}
}

// asRoot stands for sudo in a test that root runs.
const asRoot = `exec "$@"`

// typeApt types the command of the page for apt, which installs below dir.
func typeApt(t *testing.T, out, dir string) {
	own := t.TempDir()
	for _, d := range []string{"state/lists/partial", "cache/archives/partial", "log"} {
		if err := os.MkdirAll(filepath.Join(own, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(own, "apt.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, `Dir::State "%[1]s/state"; Dir::Cache "%[1]s/cache"; Dir::Log "%[1]s/log";
Dir::State::status "%[2]s/var/lib/dpkg/status"; Dir::Etc::sourcelist "/dev/null"; Dir::Etc::sourceparts "/dev/null"; Dir::Etc::parts "/dev/null"; Dir::Etc::main "/dev/null";
APT::Get::Assume-Yes "true"; APT::Sandbox::User "root"; DPkg::Options { "--root=%[2]s"; "--log=%[1]s/log/dpkg.log"; };
`, own, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	typeCommand(t, out, installs(t, "apt"), map[string]string{"sudo": asRoot}, "APT_CONFIG="+config)
}

// typeDnf types the command of the page for dnf, which installs below dir. It has no repositories: the package must
// require nothing. Like Fedora's, it wants signatures of packages from repositories, but not of files. Where dnf is
// missing, rpm stands for it.
func typeDnf(t *testing.T, out, dir string) {
	own := t.TempDir()
	config := filepath.Join(own, "dnf.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, "[main]\ncachedir=%[1]s/cache\nlogdir=%[1]s/log\npersistdir=%[1]s/persist\n"+
		"reposdir=%[1]s/repos\nvarsdir=%[1]s/vars\nplugins=0\ngpgcheck=1\nassumeyes=1\n", own), 0o600); err != nil {
		t.Fatal(err)
	}
	script := `exec "$DNF" --config="$CONFIG" --installroot="$ROOT" --releasever=1 "$@"`
	dnf, err := exec.LookPath("dnf")
	if err != nil {
		fmt.Fprintln(os.Stderr, "SKIPPED: dnf is not installed (tests/setup.sh); rpm stands for it in the command of docs/releasing.md")
		script = `[ "$1" = install ]; shift; exec rpm --root "$ROOT" --nosignature --nodeps --install "$@"`
	}
	typeCommand(t, out, installs(t, "dnf"), map[string]string{"sudo": asRoot, "dnf": script}, "ROOT="+dir, "DNF="+dnf, "CONFIG="+config)
}

// typeBrew types the commands of the page for Homebrew. testdata/brew.rb, with the archive that Homebrew would
// download, stands for it, and installs into a directory. Like Homebrew, it takes formulae of a tap only.
func typeBrew(t *testing.T, out, prefix string) {
	home := t.TempDir()
	typeCommand(t, out, installs(t, "brew"), map[string]string{
		"brew": `case $1 in
tap-new) [ "$2" = --no-git ]; mkdir -p "$HOME/$3/Formula" ;;
--repository) echo "$HOME/$2" ;;
install) formula=$HOME/${2%/*}/Formula/${2##*/}.rb; cd "$CELLAR"; exec ruby "$BREW" "$formula" "$OS" "$ARCH" install ;;
*) exit 64 ;;
esac`,
	}, "HOME="+home, "XDG_RUNTIME_DIR="+home, "PREFIX="+prefix, "CELLAR="+unpacked(t, out), "BREW="+absolute(t, "testdata/brew.rb"),
		"OS="+here.os, "ARCH="+here.arch)
}

// unpacked returns the directory of the unpacked archive of this machine.
func unpacked(t *testing.T, out string) string {
	t.Helper()
	dir := t.TempDir()
	run(t, "tar", "-xzf", filepath.Join(out, "trl_0.1.0_"+here.os+"_"+here.arch+".tar.gz"), "-C", dir, "--strip-components", "1")
	return dir
}
