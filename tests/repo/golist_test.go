package repo_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/trl-dev/trl"
)

// goPackage is what the tests need of `go list -json`.
type goPackage struct {
	Dir        string
	ImportPath string
	Name       string
	Doc        string
	Standard   bool
	GoFiles    []string
	Imports    []string
	Deps       []string
}

// rel is the import path within the module: "internal/shell".
func (p goPackage) rel() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

func (p goPackage) ours() bool { return isOurs(p.ImportPath) }

func isOurs(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// systems are the operating systems whose files are looked at. A rule that holds
// on one and not on the other is broken.
var systems = []string{"linux", "darwin"}

var listed sync.Map // GOOS → func() ([]goPackage, error), listed once per run

// packages lists the packages of the module and everything they depend on, for one system.
func packages(t *testing.T, goos string) []goPackage {
	t.Helper()
	once, _ := listed.LoadOrStore(goos, sync.OnceValues(func() ([]goPackage, error) { return goList(goos) }))
	all, err := once.(func() ([]goPackage, error))()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func goList(goos string) ([]goPackage, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,ImportPath,Name,Doc,Standard,GoFiles,Imports,Deps", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.New("go list: " + err.Error() + "\n" + stderr.String())
	}
	var all []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// sourceFiles walks the repository's own files. Built things and git's are left out.
func sourceFiles(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch rel {
			case ".git", "bin", "build", "sdk/typescript/dist", "sdk/typescript/.test":
				return filepath.SkipDir
			}
			if d.Name() == "node_modules" {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			visit(filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// read returns a file of the repository. It also tells the test cache which
// files the result depends on, which `go list` in a child process does not.
func read(t *testing.T, rel string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rel)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
