package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// check compares the version with what the sources say. The SDKs have the version of the sources, and
// a release is one version, with a section of its own in the changelog that leaves nothing out.
func (r *release) check() error {
	if r.version == "" {
		return fmt.Errorf("-version is missing")
	}
	source, err := os.ReadFile(filepath.Join(r.root, "internal", "version", "version.go"))
	if err != nil {
		return err
	}
	if strings.ContainsAny(r.version, "-+") {
		return nil // no release, or one that is only tried out
	}
	if !strings.Contains(string(source), `Version = "`+r.version+`"`) {
		return fmt.Errorf("the tag says %s, internal/version another version", r.version)
	}
	log, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if notes(string(log), "Unreleased") != "" {
		return fmt.Errorf("CHANGELOG.md: changes under Unreleased would be missing in the notes of %s", r.version)
	}
	if notes(string(log), r.version) == "" {
		return fmt.Errorf("CHANGELOG.md has no section about %s", r.version)
	}
	return nil
}

func (r *release) printNotes() error {
	log, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	_, err = fmt.Print(notes(string(log), r.version))
	return err
}

// relative is the start of a link to a file of the repository.
var relative = regexp.MustCompile(`\]\(([a-zA-Z][^):]*\))`)

// notes returns what a changelog says about a version. Its links name the files as they were in
// that version: the page of a release is in another place than the files.
func notes(changelog, version string) string {
	_, section, _ := strings.Cut("\n"+changelog, "\n## ["+version+"]")
	_, section, _ = strings.Cut(section, "\n") // the date
	section, _, _ = strings.Cut("\n"+section, "\n## [")
	section = strings.TrimSpace(section)
	if section == "" {
		return ""
	}
	return relative.ReplaceAllString(section, "](https://github.com/trl-dev/trl/blob/v"+version+"/$1") + "\n"
}
