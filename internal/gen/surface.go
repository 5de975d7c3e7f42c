package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/config"
)

const surfaceHead = `# What is released, one thing per line. make generate adds lines and never drops one:
# what has to go, or to change, is first deleted here by hand.
`

// writeSurface lists the surface on which clients rely. It returns an error if a line of kept is no
// longer true.
func writeSurface(c *contract, kept []byte) ([]byte, error) {
	lines := c.surface()
	var gone []string
	for line := range strings.Lines(string(kept)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !slices.Contains(lines, line) {
			gone = append(gone, line)
		}
	}
	if len(gone) > 0 {
		return nil, fmt.Errorf("docs/surface.txt: released, and gone or changed (delete the line by hand when that is meant):\n  %s", strings.Join(gone, "\n  "))
	}
	var b bytes.Buffer
	b.WriteString(surfaceHead)
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	return b.Bytes(), nil
}

func (c *contract) surface() []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, m := range api.Methods() {
		add("method %s %s %s%s", m.Name, m.Params.Name(), m.Result.Name(), marks(m, " "))
	}
	for _, o := range c.objects {
		for _, f := range o.allFields() {
			optional := ""
			if f.optional {
				optional = " optional"
			}
			add("field %s.%s %s%s", o.name, f.name, f.typ.words(), optional)
		}
	}
	for _, e := range c.enums {
		for _, v := range e.values {
			add("word %s %s", e.name, v)
		}
	}
	for _, e := range api.Codes {
		add("code %s http %d grpc %s exit %d", e.Code, e.HTTP, e.GRPC, e.Exit)
	}
	add("exit %d timed out", api.ExitTimedOut)
	add("exit %d cancelled", api.ExitCancelled)
	for _, e := range (config.Config{}).Entries() {
		add("setting %s %s %s", e.Key, e.Env, e.Flag)
	}
	slices.Sort(lines)
	return lines
}

// marks returns the properties of a method as words, each after the separator.
func marks(m api.Method, separator string) string {
	text := ""
	for _, mark := range []struct {
		set  bool
		word string
	}{{m.Access == api.AccessRead, "reads"}, {m.Access == api.AccessLocal, "local"}, {m.Streams, "streams"}, {m.Strict, "strict"}} {
		if mark.set {
			text += separator + mark.word
		}
	}
	return text
}
