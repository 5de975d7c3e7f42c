// Command release makes everything that a release of TRL consists of, from the sources and without
// a network: archives, packages for Debian and Red Hat, images, the packages of the SDKs, a Homebrew
// formula, lists of what is inside (SBOM), and checksums. The same commit gives the same bytes. Run it
// with make release.
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release is what one run makes.
type release struct {
	root     string    // of the repository
	out      string    // the directory of the results
	work     string    // for what is needed on the way
	version  string    // without a leading v
	time     time.Time // of every file; that of the commit
	self     string    // the trl that runs on this machine
	programs map[platform]programs
	extras   []file // what accompanies the program: manual pages, completions, licence
	sdks     bool   // whether the packages of the SDKs are made too; that takes Python and Node
	images   bool   // whether only the images are made
}

// platform is one on which TRL runs.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "-" + p.arch }

// programs are the paths of the programs for one platform.
type programs struct {
	trl, runner string
	kube        string // inside trl; empty if it has none
}

// file is a file of an archive, a package or an image.
type file struct {
	name string // relative, with slashes
	data []byte
	mode os.FileMode
}

var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

func main() {
	var r release
	flag.StringVar(&r.root, "root", ".", "the top of the repository")
	flag.StringVar(&r.out, "out", "build/release", "the directory of the results; it is emptied")
	flag.StringVar(&r.version, "version", "", "the version")
	only := flag.String("only", "", "one platform, such as linux/amd64, for trying it out")
	flag.BoolVar(&r.images, "images", false, "make the images and nothing else")
	notesOnly := flag.Bool("notes", false, "print what the changelog says about the version, and build nothing")
	flag.Parse()
	r.sdks = *only == ""
	if *only != "" {
		platforms = slices.DeleteFunc(platforms, func(p platform) bool { return p.os+"/"+p.arch != *only })
	}
	err := r.check()
	switch {
	case err != nil:
	case *notesOnly:
		err = r.printNotes()
	default:
		err = r.run()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "release: %s\n", err)
		os.Exit(1)
	}
}

func (r *release) run() error {
	out, err := exec.Command("git", "-C", r.root, "log", "-1", "--format=%ct").Output()
	if err != nil {
		return fmt.Errorf("the time of the commit: %w", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return err
	}
	r.time = time.Unix(seconds, 0).UTC()
	if r.work, err = os.MkdirTemp("", "trl-release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := r.build(); err != nil {
		return err
	}
	if r.self = r.programs[platform{runtime.GOOS, runtime.GOARCH}].trl; r.self == "" {
		return fmt.Errorf("a release is made on one of its platforms, not on %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	return r.pack()
}

// pack makes the results from the programs.
func (r *release) pack() error {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if r.images {
		return r.makeImages()
	}
	if err := r.collect(); err != nil {
		return err
	}
	for _, step := range []func() error{r.archives, r.packages, r.makeImages, r.sdkPackages, r.boms, r.formula, r.installer, r.sums} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// built returns the platforms for which there are programs, in the order of platforms.
func (r *release) built() []platform {
	return slices.DeleteFunc(slices.Clone(platforms), func(p platform) bool { return r.programs[p].trl == "" })
}

// collect gathers the files that accompany the program. The program of this machine makes the
// manual pages and the completions.
func (r *release) collect() error {
	pages := filepath.Join(r.work, "man")
	if out, err := exec.Command(r.self, "man", pages).CombinedOutput(); err != nil {
		return fmt.Errorf("trl man: %w: %s", err, out)
	}
	list, err := filepath.Glob(filepath.Join(pages, "*", "*"))
	if err != nil {
		return err
	}
	for _, path := range list {
		if err := r.extra("share/man/"+filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), path); err != nil {
			return err
		}
	}
	for shell, name := range map[string]string{
		"bash": "share/bash-completion/completions/trl",
		"zsh":  "share/zsh/site-functions/_trl",
		"fish": "share/fish/vendor_completions.d/trl.fish",
	} {
		script, err := exec.Command(r.self, "completion", shell).Output()
		if err != nil {
			return fmt.Errorf("trl completion %s: %w", shell, err)
		}
		r.extras = append(r.extras, file{name, script, 0o644})
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		if err := r.extra("share/doc/trl/"+name, filepath.Join(r.root, name)); err != nil {
			return err
		}
	}
	sortFiles(r.extras)
	return nil
}

func sortFiles(files []file) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
}

// tagOf is a version as the tag of an image, which cannot have a plus sign.
func tagOf(version string) string { return strings.ReplaceAll(version, "+", "-") }

// extra adds a file of this machine to those that accompany the program.
func (r *release) extra(name, path string) error {
	data, err := os.ReadFile(path)
	r.extras = append(r.extras, file{name, data, 0o644})
	return err
}

// write makes a file of the release.
func (r *release) write(name string, data []byte, mode os.FileMode) error {
	return os.WriteFile(filepath.Join(r.out, name), data, mode)
}

// sdkPackages makes the wheel and the npm package.
func (r *release) sdkPackages() error {
	if !r.sdks {
		return nil
	}
	if out, err := exec.Command(filepath.Join(r.root, "sdk", "build.sh"), r.out, "python", "node").CombinedOutput(); err != nil {
		return fmt.Errorf("sdk/build.sh: %w: %s", err, out)
	}
	return nil
}

// installer copies the script that installs the archives.
func (r *release) installer() error {
	script, err := os.ReadFile(filepath.Join(r.root, "dist", "install.sh"))
	if err != nil {
		return err
	}
	return r.write("install.sh", script, 0o755)
}

// sums writes the checksums of everything else, in the format of sha256sum(1).
func (r *release) sums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return r.write("SHA256SUMS", []byte(list.String()), 0o644)
}
