package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/trl-dev/trl/api"
)

// sdkName returns the name of a type in the SDKs, where the name Error is taken.
func sdkName(name string) string {
	if name == "Error" {
		return "ErrorBody"
	}
	return name
}

// methodNames returns the quoted names of the chosen methods.
func methodNames(which func(api.Method) bool) []string {
	var list []string
	for _, m := range api.Methods() {
		if which(m) {
			list = append(list, strconv.Quote(m.Name))
		}
	}
	return list
}

func all(api.Method) bool       { return true }
func streams(m api.Method) bool { return m.Streams }
func reads(m api.Method) bool   { return m.Access == api.AccessRead }

func quoted(values []string) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = strconv.Quote(v)
	}
	return list
}

// writeTypeScript writes interfaces and unions, with the names of the wire.
func writeTypeScript(c *contract) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// %s\n\n", notice)
	fmt.Fprintf(&b, "/** The version of the wire contract, as system.info tells it. */\nexport const apiVersion = %d;\n", api.Version)
	for _, e := range c.enums {
		b.WriteString("\n")
		comment(&b, "", e.doc)
		fmt.Fprintf(&b, "export type %s =\n  | %s;\n", e.name, strings.Join(quoted(e.values), "\n  | "))
	}
	for _, o := range c.objects {
		b.WriteString("\n")
		o.typeScript(&b)
	}
	b.WriteString("\n/** Every method with its parameters and its result. Pushes, where there are some, are StreamEvents. */\nexport interface Methods {\n")
	for _, m := range api.Methods() {
		comment(&b, "  ", m.Summary)
		fmt.Fprintf(&b, "  %q: { params: %s; result: %s };\n", m.Name, m.Params.Name(), m.Result.Name())
	}
	fmt.Fprintf(&b, `}

/** The name of a method. */
export type Method = keyof Methods;

/** The name of a method whose answer is followed by pushes. */
export type StreamingMethod = %s;

/** The parameters of a method. */
export type Params<M extends Method> = Methods[M]["params"];

/** The result of a method. */
export type Result<M extends Method> = Methods[M]["result"];
`, strings.Join(methodNames(streams), " | "))
	list := func(doc, name, element string, values []string) {
		fmt.Fprintf(&b, "\n/** %s */\nexport const %s: readonly %s[] = [\n  %s,\n];\n", doc, name, element, strings.Join(values, ",\n  "))
	}
	list("All methods.", "methods", "Method", methodNames(all))
	list("The methods whose answer is followed by pushes.", "streamingMethods", "StreamingMethod", methodNames(streams))
	list("The methods that change nothing.", "readMethods", "Method", methodNames(reads))
	list("All types of pushes. A newer daemon may have more.", "eventTypes", "EventType", quoted(c.enum("EventType").values))
	list("All error codes. A newer daemon may have more.", "errorCodes", "ErrorCode", quoted(c.enum("ErrorCode").values))
	return b.Bytes(), nil
}

// comment writes a text and then tags, each of which begins a line.
func comment(b *bytes.Buffer, indent, text string, tags ...string) {
	lines := wrap(text, 96)
	for _, tag := range tags {
		if tag != "" {
			lines = append(lines, wrap(tag, 96)...)
		}
	}
	if len(lines) == 1 {
		fmt.Fprintf(b, "%s/** %s */\n", indent, lines[0])
		return
	}
	fmt.Fprintf(b, "%s/**\n", indent)
	for _, line := range lines {
		fmt.Fprintf(b, "%s * %s\n", indent, line)
	}
	fmt.Fprintf(b, "%s */\n", indent)
}

func (o *object) typeScript(b *bytes.Buffer) {
	comment(b, "", o.doc)
	embedded, own := o.parts()
	extends := ""
	for i, e := range embedded {
		parent := e.embed.name
		if e.optional || len(o.oneOf) > 0 {
			parent = "Partial<" + parent + ">"
		}
		extends += []string{" extends ", ", "}[min(i, 1)] + parent
	}
	if len(o.fields) == 0 {
		fmt.Fprintf(b, "export type %s = Record<string, never>;\n", sdkName(o.name))
		return
	}
	fmt.Fprintf(b, "export interface %s%s {\n", sdkName(o.name), extends)
	for _, f := range o.allFields() {
		if !slices.ContainsFunc(own, func(g field) bool { return g.name == f.name }) {
			continue
		}
		tag := ""
		if d := f.deprecated; d != nil {
			tag = fmt.Sprintf("@deprecated Use %s. Release %s removes it.", d.Use, d.Removed)
		}
		comment(b, "  ", f.doc, tag)
		mark := ""
		if f.optional {
			mark = "?"
		}
		fmt.Fprintf(b, "  %s%s: %s;\n", f.name, mark, f.typ.typeScript())
	}
	b.WriteString("}\n")
}

func (k kind) typeScript() string {
	switch k.word {
	case "integer", "number":
		return "number"
	case "time":
		return "string"
	case "any":
		return "unknown"
	case "enum":
		return k.enum.name
	case "object":
		return sdkName(k.object.name)
	case "map":
		return "Record<string, " + k.elem.typeScript() + ">"
	case "list":
		if k.single {
			return k.elem.typeScript() + " | " + k.elem.typeScript() + "[]"
		}
		return k.elem.typeScript() + "[]"
	}
	return k.word
}

// wrap breaks a text into lines of at most width bytes.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, w := range strings.Fields(text) {
		if line != "" && len(line)+1+len(w) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+w, " ")
	}
	return append(lines, line)
}

// pythonWords are the keywords of Python, which cannot be field names there.
var pythonWords = []string{"from", "class", "def", "import", "in", "is", "not", "or", "and", "with", "yield", "async", "await", "global", "pass"}

func pythonName(name string) string {
	if slices.Contains(pythonWords, name) {
		return name + "_"
	}
	return name
}
