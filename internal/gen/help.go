package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
)

// words names the type for people.
func (k kind) words() string {
	switch k.word {
	case "enum":
		return k.enum.name
	case "object":
		return k.object.name
	case "map":
		return "object of " + k.elem.words()
	case "list":
		if k.single {
			return k.elem.words() + " or list of them"
		}
		return "list of " + k.elem.words()
	}
	return k.word
}

// choice describes in words which of the fields are required.
func (o *object) choice() string {
	var lines []string
	or := " or "
	for _, line := range o.oneOf {
		if len(line) > 1 {
			or = ", or "
		}
		if !slices.ContainsFunc(o.allFields(), func(f field) bool { return f.deprecated != nil && f.name == line[0] }) {
			lines = append(lines, strings.Join(line, " and "))
		}
	}
	return strings.Join(lines, or)
}

// writeHelp writes a section for each method, for `trl call --help METHOD`. A line with the method's
// name begins the section.
func writeHelp(c *contract) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n", notice)
	for _, m := range api.Methods() {
		fmt.Fprintf(&b, "== %s\n%s\n", m.Name, m.Summary)
		c.byType[m.Params].help(&b)
		var answer []string
		for _, f := range c.byType[m.Result].allFields() {
			answer = append(answer, f.name)
		}
		fmt.Fprintf(&b, "\nAnswer:\n  %s\n", strings.Join(wrap(strings.Join(answer, ", "), 84), "\n  "))
		if m.Streams {
			b.WriteString("  then pushes, a line each\n")
		}
		for i, ex := range examplesOf(m.Name) {
			if i == 0 {
				b.WriteString("\nExample:\n")
			}
			fmt.Fprintf(&b, "  %s\n", strings.TrimSpace("trl call "+m.Name+" "+shellQuoted(ex.params)))
		}
	}
	return b.Bytes(), nil
}

func shellQuoted(text string) string {
	if text == "" {
		return ""
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// help lists the fields of parameters.
func (o *object) help(b *bytes.Buffer) {
	if len(o.allFields()) == 0 {
		b.WriteString("\nIt has no parameters.\n")
		return
	}
	b.WriteString("\nParameters:\n")
	if len(o.oneOf) > 0 {
		fmt.Fprintf(b, "  Give %s.\n", o.choice())
	}
	for _, f := range o.allFields() {
		note := f.typ.words()
		if f.typ.word == "enum" {
			note = strings.Join(f.typ.enum.values, "|")
		}
		if !f.optional {
			note += ", required"
		}
		fmt.Fprintf(b, "  %s (%s)\n", f.name, note)
		for _, line := range wrap(f.fullDoc(), 80) {
			fmt.Fprintf(b, "      %s\n", line)
		}
	}
}
