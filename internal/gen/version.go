package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/trl-dev/trl/internal/version"
)

// versionFiles are the files of the SDKs that have the version of TRL, and where.
var versionFiles = []struct {
	path   string
	format func(string) string
	line   *regexp.Regexp // before, and after the version
	times  int
}{
	{"sdk/python/pyproject.toml", pythonVersion, regexp.MustCompile(`(?m)^(version = ")[^"]*(")$`), 1},
	{"sdk/typescript/package.json", nodeVersion, regexp.MustCompile(`(?m)^(  "version": ")[^"]*(",)$`), 1},
	{"sdk/typescript/package-lock.json", nodeVersion, regexp.MustCompile(`("name": "@trl-dev/trl",\s+"version": ")[^"]*(",)`), 2},
}

// writeVersions returns these files with the version in internal/version.
func writeVersions(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, f := range versionFiles {
		path := filepath.Join(root, filepath.FromSlash(f.path))
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if n := len(f.line.FindAll(text, -1)); n != f.times {
			return nil, fmt.Errorf("%s: has %d versions, want %d", f.path, n, f.times)
		}
		files[path] = f.line.ReplaceAll(text, []byte("${1}"+f.format(version.Version)+"${2}"))
	}
	return files, nil
}

func nodeVersion(v string) string { return v }

var preRelease = regexp.MustCompile(`^-([a-z]+)\.?([0-9]*)$`)

// pythonVersion returns a version as PEP 440 wants it: 0.1.0-dev is 0.1.0.dev0, 0.1.0-rc.1 is 0.1.0rc1.
func pythonVersion(v string) string {
	number, pre, found := strings.Cut(v, "-")
	if !found {
		return v
	}
	m := preRelease.FindStringSubmatch("-" + pre)
	if m == nil {
		panic("internal/version: a version is like 1.2.3, 1.2.3-dev or 1.2.3-rc.1")
	}
	if m[2] == "" {
		m[2] = "0"
	}
	if m[1] == "dev" {
		m[1] = ".dev"
	}
	return number + m[1] + m[2]
}
