//go:build linux

// Command compare runs the same tasks with TRL and with what users would choose instead, as installed
// from public packages, and prints Markdown: what each takes, and what each does where it is difficult.
// What is not installed is skipped, and the output names it.
//
//	make compare
//	go run ./tests/compare -only trl,tmux
//	go run ./tests/compare -only trl -also 'podman=podman exec box sh -c'
//
// With -doc it also replaces the part of a document between the markers, which is how
// docs/comparison.md is made.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/trl-dev/trl/internal/runtimes/docker/dockertest"
)

func main() {
	binary := flag.String("bin", "bin/trl", "the trl to compare")
	only := flag.String("only", "", "what to run, separated by commas: "+strings.Join(names(), ", "))
	doc := flag.String("doc", "", "a document whose part between the markers is replaced")
	rounds := flag.Int("rounds", 30, "how often true is run")
	flag.Func("also", "NAME=WORDS: a row for a program that runs the shell text behind these words; may be repeated", func(value string) error {
		name, words, _ := strings.Cut(value, "=")
		program := strings.Fields(words)
		if name == "" || len(program) == 0 {
			return errors.New("write NAME=WORDS")
		}
		candidates = append(candidates, candidate{name, func(f *fixture, _ string) *subject { return recipe(f, program) }})
		also = append(also, name)
		return nil
	})
	flag.Parse()
	text := compare(*binary, *only, *rounds)
	fmt.Print(text)
	status := 0
	if *doc != "" {
		if err := replace(*doc, text); err != nil {
			fmt.Fprintln(os.Stderr, "compare:", err)
			status = 1
		}
	}
	dockertest.Exit(status)
}

// candidate is what is compared.
type candidate struct {
	name string
	make func(f *fixture, binary string) *subject
}

// also are the names of -also, which -only does not leave out.
var also []string

// candidates has the floor first.
var candidates = []candidate{
	{"bash -c", bashC}, {"trl", trl}, {"tmux", tmux}, {"docker exec", dockerExec}, {"ssh", ssh},
	{"codex exec-server", codex}, {"swe-rex", sweRex}, {"sandbox-agent", sandboxAgent},
}

func names() []string {
	var list []string
	for _, c := range candidates {
		list = append(list, c.name)
	}
	return list
}

// compare runs the tasks and returns the report.
func compare(binary, only string, rounds int) string {
	r := report{machine: machine()}
	for _, c := range candidates {
		if only != "" && c.name != candidates[0].name && !slices.Contains(also, c.name) && !slices.Contains(strings.Split(only, ","), c.name) {
			continue
		}
		f := &fixture{}
		why := f.try(func() {
			s := c.make(f, binary)
			s.name = c.name
			fmt.Fprintf(os.Stderr, "compare: %s\n", s.version)
			r.rows = append(r.rows, measure(s, rounds))
		})
		f.end()
		if why != "" {
			why = short(errors.New(why))
			fmt.Fprintf(os.Stderr, "SKIPPED: %s: %s\n", c.name, why)
			r.skipped = append(r.skipped, fmt.Sprintf("%s: %s", c.name, why))
		}
	}
	return r.markdown()
}

const (
	begin = "<!-- compare: begin, written by make compare -->\n"
	end   = "<!-- compare: end -->\n"
)

// replace puts the report between the markers of a document.
func replace(path, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(page, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		return fmt.Errorf("%s: has no markers", path)
	}
	return os.WriteFile(path, slices.Concat(before, []byte(begin+"\n"+text+"\n"+end), after), 0o644)
}
