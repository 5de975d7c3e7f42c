package main

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	"github.com/trl-dev/trl/api"
)

const pageHead = `# The API

<!-- %s -->

One JSON object per line, on the unix socket, on stdio and on a WebSocket. Requests of one connection run concurrently; an answer
carries the ` + "`id`" + ` of its request, which may be any JSON scalar. Pushes carry a ` + "`stream_id`" + ` instead. The same methods are at
` + "`POST /v1/METHOD`" + ` over HTTP (see [below](#http)), in the Go client, in both SDKs, and in ` + "`trl call METHOD`" + `.

` + "```text\n" + firstLines + "```" + `

- A session_id may be the id or the name of a session; a dialogue_id may be the id or the name of a dialogue. Ids are opaque.
- A request may name a session that is still being created, also by an earlier request of the same connection that is not answered yet: it waits for the creation.
- Times are RFC 3339 in UTC. Parameters give durations in seconds, with fractions, and end in _s; results have durations in seconds (_s) or milliseconds (_ms). Lists are never null. Optional fields are marked "may be absent".
- Text is UTF-8. If the bytes are not UTF-8, the text has replacement characters, and the field with _base64 has the exact bytes.
- A command that fails, is killed or times out is a result, not an error.
- The stream that starts a command delivers all of its output: the command waits for it, as on a pipe (see backpressure). A stream of an earlier command may have gaps.
- On the socket and on stdio, a request for a stream may have the member "raw":true beside its params. Pushes then carry output as bytes: the push has "raw":N instead of
  data, and N bytes follow its line. Pushes without "raw" keep their usual form; an older daemon sends only those.
- There, exec.input may have the member "raw":true too. If the answer has "raw":true, later exec.input requests on the same connection may have "raw":N as their last member
  instead of data, with N bytes behind the line. An older daemon answers without "raw".
- A request may have the member "traceparent", the position of its caller in a trace (W3C Trace Context). Over HTTP and gRPC it is the header of that name. TRL ignores one that is malformed.
- Names are matched exactly, and no name may appear twice.
- Ignore fields and push types that you do not know. TRL ignores unknown parameters, except in strict methods.

`

// writePage writes docs/api.md.
func writePage(c *contract) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, pageHead, notice)
	b.WriteString("| method | what it does | |\n|---|---|---|\n")
	for _, m := range api.Methods() {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s |\n", m.Name, anchor(m.Name), m.Summary, strings.TrimPrefix(marks(m, ", "), ", "))
	}
	b.WriteString("\nreads: the method changes nothing, and a token of scope read is enough. local: only for callers on the socket and on stdio, not over HTTP, WebSocket or gRPC. streams: pushes follow the answer. strict: unknown parameters are rejected.\n\n## Methods\n")
	shown := map[*object]string{}
	for _, m := range api.Methods() {
		c.pageMethod(&b, m, shown)
	}
	b.WriteString("\n## Types\n")
	for _, o := range c.objects {
		if shown[o] == "" && len(o.fields) > 0 { // the section of a method has its parameters
			fmt.Fprintf(&b, "\n### type %s\n\n%s\n\n", o.name, o.doc)
			pageFields(&b, o, nil, "may be absent")
		}
	}
	c.pageWords(&b)
	pageStability(&b)
	b.WriteString(pageHTTP())
	return []byte(wrapProse(b.String())), nil
}

// wrapProse wraps the paragraphs and list items of Markdown at 100 columns. Tables, headings,
// comments and code blocks keep their lines.
func wrapProse(text string) string {
	const width = 100
	var out, paragraph []string
	flush := func() {
		if len(paragraph) == 0 {
			return
		}
		indent := ""
		if strings.HasPrefix(paragraph[0], "- ") {
			indent = "  "
		}
		out = append(out, strings.Join(wrap(strings.Join(paragraph, " "), width-len(indent)), "\n"+indent))
		paragraph = nil
	}
	code := false
	for _, line := range strings.Split(text, "\n") {
		fence := strings.HasPrefix(line, "```")
		if code || fence || line == "" || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "<!--") {
			flush()
			out = append(out, line)
			code = code != fence
			continue
		}
		if strings.HasPrefix(line, "- ") {
			flush()
		}
		paragraph = append(paragraph, line)
	}
	flush()
	return strings.Join(out, "\n")
}

func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(heading, ".", "")), " ", "-")
}

func (c *contract) pageMethod(b *bytes.Buffer, m api.Method, shown map[*object]string) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n", m.Name, m.Summary)
	params := c.byType[m.Params]
	switch {
	case len(params.fields) == 0:
		b.WriteString("No parameters.\n")
	case shown[params] != "":
		fmt.Fprintf(b, "Parameters: those of [`%s`](#%s).\n", shown[params], anchor(shown[params]))
	default:
		if len(params.oneOf) > 0 {
			fmt.Fprintf(b, "Give %s.\n\n", params.choice())
		}
		pageFields(b, params, shown, "")
		shown[params] = m.Name
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "Answer: [%s](#type-%s)", m.Result.Name(), strings.ToLower(m.Result.Name()))
	if m.Streams {
		b.WriteString(", then a [StreamEvent](#type-streamevent) per push")
	}
	b.WriteString(".\n")
	for _, ex := range examplesOf(m.Name) {
		fmt.Fprintf(b, "\n```text\n→ %s\n← %s\n```\n", ex.request(), strings.Join(ex.answers(), "\n← "))
	}
}

// pageFields writes a table of the fields. It adds the text optional to optional fields, and
// "required" to parameters that are not optional.
func pageFields(b *bytes.Buffer, o *object, shown map[*object]string, optional string) {
	b.WriteString("| field | type | meaning |\n|---|---|---|\n")
	for _, f := range o.fields {
		if f.embed != nil {
			link := fmt.Sprintf("[%s](#type-%s)", f.embed.name, strings.ToLower(f.embed.name))
			if method := shown[f.embed]; method != "" {
				link = fmt.Sprintf("[`%s`](#%s)", method, anchor(method))
			}
			note := ""
			if f.optional {
				note = ", " + optional
			}
			fmt.Fprintf(b, "| … | the fields of %s%s | %s |\n", link, note, f.doc)
			continue
		}
		note := ""
		switch {
		case f.optional && optional != "":
			note = ", " + optional
		case !f.optional && o.params:
			note = ", **required**"
		}
		fmt.Fprintf(b, "| `%s` | %s%s | %s |\n", f.name, f.typ.link(), note, strings.ReplaceAll(f.fullDoc(), "|", `\|`))
	}
}

// link is words, with links to the types.
func (k kind) link() string {
	switch k.word {
	case "enum":
		return strings.Replace(k.words(), k.enum.name, fmt.Sprintf("[%s](#%s)", k.enum.name, enumSection(k.enum)), 1)
	case "object":
		return fmt.Sprintf("[%s](#type-%s)", k.object.name, strings.ToLower(k.object.name))
	case "list":
		if !k.single {
			return "list of " + k.elem.link()
		}
		return k.elem.link() + " or list of them"
	}
	return k.words()
}

// enumSection returns the anchor of the section that lists the words of an enumeration.
func enumSection(e *enum) string {
	switch e.name {
	case "ErrorCode":
		return "errors"
	case "EventType":
		return "pushes"
	}
	return "words"
}

// pageWords writes the enumerations, the pushes and the errors.
func (c *contract) pageWords(b *bytes.Buffer) {
	b.WriteString("\n## Words\n\n| | one of | |\n|---|---|---|\n")
	for _, e := range c.enums {
		if enumSection(e) == "words" {
			fmt.Fprintf(b, "| %s | %s | %s |\n", e.name, strings.Join(e.values, ", "), e.doc)
		}
	}
	b.WriteString("\n## Pushes\n\n| EventType | meaning |\n|---|---|\n")
	for _, k := range c.source.consts {
		if isEvent(k) {
			fmt.Fprintf(b, "| `%s` | %s |\n", k.value, onTheWire(k.doc, wireNames(reflect.TypeFor[api.StreamEvent]())))
		}
	}
	b.WriteString("\n## Errors\n\n| ErrorCode | meaning | HTTP | gRPC | exit of trl |\n|---|---|---|---|---|\n")
	for _, e := range api.Codes {
		fmt.Fprintf(b, "| `%s` | %s | %d | %s | %d |\n", e.Code, e.Meaning, e.HTTP, e.GRPC, e.Exit)
	}
	fmt.Fprintf(b, "\nA command that timed out has exit_code %d; a cancelled one has %d. `trl run` exits with the same status as its command.\n", api.ExitTimedOut, api.ExitCancelled)
}

const stability = `
## Stability

The API has version %[1]d, the api_version of system.info. For as long as it does:

- A method, field, word, error code or setting keeps its name, its type and its meaning, unless it is in the list of deprecations below. A word becomes deprecated
  only when it has a replacement, and works for at least one more release.
- New methods, optional parameters, fields of results, push types, words and error codes may come with any release. Ignore those that you do not know.
- Programs may branch on codes, details, words and field names. Messages are for people, and may change with any release.
- A daemon works with the clients of the release before it, and with runners that an earlier daemon started.

%[2]sdocs/surface.txt%[2]s in the source lists every name that this promise covers; a test keeps names from getting lost.

Deprecations:

| method | deprecated | use | since | removed in |
|---|---|---|---|---|
`

// pageStability writes the promise for this version of the API, and the deprecations.
func pageStability(b *bytes.Buffer) {
	fmt.Fprintf(b, stability, api.Version, "`")
	for _, d := range api.Deprecations {
		_, word, _ := strings.Cut(d.Field, ".")
		var methods []string
		for _, name := range d.Methods {
			methods = append(methods, fmt.Sprintf("[`%s`](#%s)", name, anchor(name)))
		}
		if d.Value != "" {
			word = fmt.Sprintf("%s: %q", word, d.Value)
		}
		fmt.Fprintf(b, "| %s | `%s` | `%s` | %s | %s |\n", strings.Join(methods, ", "), word, d.Use, d.Since, d.Removed)
	}
}
