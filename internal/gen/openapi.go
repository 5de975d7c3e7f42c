package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trl-dev/trl/api"
)

const schemaRefs = "#/components/schemas/"

// door is a path of the HTTP server other than POST /v1/METHOD.
type door struct {
	path, id, summary string
	params            []string // in the query: Type.field, or a name in queryParams
	open              bool     // needs no token
	responses         node
}

func doors() []door {
	text := func(kind, description string) node {
		return node{"200", node{"description", description, "content", node{kind, node{"schema", node{"type", "string"}}}}}
	}
	bytes := node{"application/octet-stream", node{"schema", node{"type", "string", "format", "binary"}}}
	cast := node{"application/x-asciicast", node{"schema", node{"type", "string", "format", "binary"}}}
	raw := func(stream string) door {
		return door{path: "/v1/exec/{exec_id}/" + stream, id: stream, summary: "The bytes of " + stream + " as they are.",
			params: []string{"offset", "follow", "Range"},
			responses: node{
				"200", node{"description", "The bytes from the offset up to the end, or up to the next gap.", "headers", rawHeaders(), "content", bytes},
				"206", node{"description", "The requested range.", "headers", rawHeaders(), "content", bytes},
				"410", node{"description", "The first requested byte is no longer kept; X-Trl-Gap names the missing part.", "headers", rawHeaders(), "content", errorContent()},
				"416", node{"description", "The range begins after the end.", "content", errorContent()},
			}}
	}
	stream := append(streamResponse(), "204", node{"description", "Last-Event-ID is the id of the last push: nothing follows."})
	return []door{
		raw("stdout"), raw("stderr"),
		{path: "/v1/exec/{exec_id}/stream", id: "execPushes", summary: "The pushes of a command: exec.stream with exec_id.",
			params: []string{"ExecStreamParams.after_seq", "ExecStreamParams.stream", "ExecStreamParams.from_offset", "Last-Event-ID"}, responses: stream},
		{path: "/v1/session/{session_id}/attach", id: "viewer", summary: "The screen of a terminal and all further output, for a read-only viewer: session.attach with read_only.",
			params: []string{"SessionAttachParams.from_offset", "SessionAttachParams.scrollback", "SessionAttachParams.label", "SessionAttachParams.viewers", "SessionAttachParams.modes", "Last-Event-ID"}, responses: streamResponse()},
		{path: "/v1/dialogue/{dialogue_id}/events", id: "dialoguePushes", summary: "The events of a dialogue: dialogue.events.",
			params: []string{"DialogueEventsParams.after_seq", "DialogueEventsParams.no_follow", "DialogueEventsParams.no_deltas", "DialogueEventsParams.types", "Last-Event-ID"}, responses: stream},
		{path: "/v1/dialogue/{dialogue_id}/raw", id: "dialogueBytes", summary: "The raw output of the agent's program: dialogue.raw.",
			params: []string{"DialogueRawParams.epoch", "DialogueRawParams.stream", "offset", "Range"},
			responses: node{
				"200", node{"description", "The bytes from the offset on.", "headers", rawHeaders(), "content", bytes},
				"206", node{"description", "The requested range.", "headers", rawHeaders(), "content", bytes},
				"416", node{"description", "The range begins after the end.", "content", errorContent()},
			}},
		{path: "/v1/recording/{recording_id}", id: "recordingBytes", summary: "A recording as a file: recording.read. Its ETag can be the If-Range of a later request.",
			params: []string{"offset", "Range"},
			responses: node{
				"200", node{"description", "The recording from the offset on, an asciicast.", "headers", rawHeaders(), "content", cast},
				"206", node{"description", "The requested range.", "headers", rawHeaders(), "content", cast},
				"416", node{"description", "The range begins after the end.", "content", errorContent()},
			}},
		{path: "/v1/events", id: "events", summary: "The events of sessions and commands: event.subscribe.",
			params: []string{"EventSubscribeParams.session_id", "types", "EventSubscribeParams.after_seq", "Last-Event-ID"}, responses: streamResponse()},
		{path: "/v1/ws", id: "webSocket", summary: "A WebSocket that speaks the line protocol, one JSON object per text message. Subprotocols: trl.v1, and trl.token.TOKEN where no header can be set.",
			responses: node{"101", node{"description", "The protocol is switched."}}},
		{path: "/healthz", id: "healthz", summary: "Whether the daemon is alive.", open: true, responses: text("text/plain", "It does.")},
		{path: "/readyz", id: "readyz", summary: "Whether the daemon accepts calls.", open: true,
			responses: append(text("text/plain", "It does."), "503", node{"description", "Not now."})},
		{path: "/metrics", id: "metrics", summary: "Numbers in the text format of Prometheus.", responses: text("text/plain", "The numbers.")},
		{path: "/openapi.json", id: "openapi", summary: "This document.", open: true,
			responses: node{"200", node{"description", "OpenAPI 3.1.", "content", node{"application/json", node{"schema", node{"type", "object"}}}}}},
	}
}

// queryParams are parameters that no method has in this form.
var queryParams = map[string]node{
	"offset":        {"name", "offset", "in", "query", "description", "First byte wanted.", "schema", node{"type", "integer"}},
	"follow":        {"name", "follow", "in", "query", "description", "1: go on while the command runs. What the headers tell comes as trailers then.", "schema", node{"enum", []string{"0", "1"}}},
	"types":         {"name", "types", "in", "query", "description", "Types of events, with commas between.", "schema", node{"type", "string"}},
	"Range":         {"name", "Range", "in", "header", "description", "One range of bytes.", "schema", node{"type", "string"}},
	"Last-Event-ID": {"name", "Last-Event-ID", "in", "header", "description", "The id of the last event: as after_seq, or for a terminal as from_offset. Browsers send it when they connect again.", "schema", node{"type", "string"}},
}

func rawHeaders() node {
	headers := node{}
	for _, h := range [][2]string{
		{"X-Trl-Offset", "Where the body begins."}, {"X-Trl-Next-Offset", "Where to read on."}, {"X-Trl-Total-Bytes", "How many bytes there have been until now."},
		{"X-Trl-State", "State of the command."}, {"X-Trl-Complete", "true: nothing follows, now or later."}, {"X-Trl-Gap", "FROM-TO, the bytes [FROM, TO) that are no longer kept, if the body ends at a gap."},
	} {
		headers = append(headers, h[0], node{"description", h[1], "schema", node{"type", "string"}})
	}
	return headers
}

func errorContent() node {
	return node{"application/json", node{"schema", node{"type", "object", "properties", node{"error", ref(schemaRefs, "Error")}, "required", []string{"error"}}}}
}

func streamResponse() node {
	line := []node{ref(schemaRefs, "StreamStart"), ref(schemaRefs, "StreamEvent")}
	return node{"200", node{"description", "A StreamStart, then a StreamEvent per push. NDJSON: one per line, blank lines keep the connection alive. Server-sent events: event start, then event and id as type and seq; for session.attach the id is the offset to come back with.",
		"content", node{"application/x-ndjson", node{"schema", node{"oneOf", line}}, "text/event-stream", node{"schema", node{"type", "string"}}}}}
}

// writeOpenAPI writes OpenAPI 3.1.
func writeOpenAPI(c *contract) ([]byte, error) {
	paths := node{}
	for _, m := range api.Methods() {
		if m.Access == api.AccessLocal {
			continue // not over HTTP
		}
		noun, verb, _ := strings.Cut(m.Name, ".")
		responses := node{"200", node{"description", "The result.", "content", node{"application/json", node{"schema", ref(schemaRefs, m.Result.Name())}}}}
		if m.Streams {
			responses = streamResponse()
		}
		body := node{"schema", ref(schemaRefs, m.Params.Name())}
		if ex := examplesOf(m.Name); len(ex) > 0 && ex[0].params != "" {
			body = append(body, "example", json.RawMessage(ex[0].params))
		}
		params := c.byType[m.Params]
		required := len(params.oneOf) > 0 || slices.ContainsFunc(params.allFields(), func(f field) bool { return !f.optional })
		paths = append(paths, "/v1/"+m.Name, node{"post", node{
			"operationId", noun + strings.ToUpper(verb[:1]) + verb[1:], "tags", []string{noun}, "summary", m.Summary, "x-reads", m.Access == api.AccessRead,
			"requestBody", node{"required", required, "content", node{"application/json", body}},
			"responses", withErrors(responses),
		}})
	}
	for _, d := range doors() {
		get, err := c.door(d)
		if err != nil {
			return nil, err
		}
		paths = append(paths, d.path, node{"get", get})
	}
	return indented(node{
		"openapi", "3.1.0",
		"info", node{"title", "TRL", "version", fmt.Sprint(api.Version), "description", "The methods of TRL over HTTP.", "license", node{"name", "see LICENSE"}},
		"x-comment", notice,
		"servers", []node{{"url", "/"}},
		"security", []node{{"token", []string{}}},
		"paths", paths,
		"components", node{
			"securitySchemes", node{"token", node{"type", "http", "scheme", "bearer", "description", "A token of scope read can call what has x-reads true; one of scope full everything."}},
			"responses", node{"Error", node{"description", statusTable(), "content", errorContent()}},
			"schemas", c.schemas(schemaRefs),
		},
	})
}

func withErrors(responses node) node {
	return append(responses, "4XX", ref("#/components/responses/", "Error"), "5XX", ref("#/components/responses/", "Error"))
}

func (c *contract) door(d door) (node, error) {
	params := []node{}
	if _, rest, ok := strings.Cut(d.path, "{"); ok {
		name, _, _ := strings.Cut(rest, "}")
		params = append(params, node{"name", name, "in", "path", "required", true, "schema", node{"type", "string"}})
	}
	for _, name := range d.params {
		if p, ok := queryParams[name]; ok {
			params = append(params, p)
			continue
		}
		typeName, fieldName, _ := strings.Cut(name, ".")
		o := c.objects[slices.IndexFunc(c.objects, func(o *object) bool { return o.name == typeName })]
		i := slices.IndexFunc(o.fields, func(f field) bool { return f.name == fieldName })
		if i < 0 {
			return nil, fmt.Errorf("%s: there is no %s", d.path, name)
		}
		params = append(params, node{"name", fieldName, "in", "query", "description", o.fields[i].doc, "schema", o.fields[i].typ.schema(schemaRefs)})
	}
	get := node{"operationId", d.id, "tags", []string{"http"}, "summary", d.summary}
	if len(params) > 0 {
		get = append(get, "parameters", params)
	}
	if d.open {
		get = append(get, "security", []node{})
		return append(get, "responses", d.responses), nil
	}
	return append(get, "responses", withErrors(d.responses)), nil
}

// statusTable describes in words which HTTP status stands for which codes.
func statusTable() string {
	var lines []string
	for _, e := range api.Codes {
		lines = append(lines, fmt.Sprintf("%d %s", e.HTTP, e.Code))
	}
	slices.Sort(lines)
	return "What went wrong: " + strings.Join(lines, ", ") + "."
}

// pageHTTP is the part of docs/api.md on HTTP.
func pageHTTP() string {
	var b strings.Builder
	b.WriteString("\n## HTTP\n\n`POST /v1/METHOD` with the parameters as body returns the data itself, or `{\"error\":{…}}` with the status of the error. Streaming methods\n" +
		"return NDJSON, or server-sent events with `Accept: text/event-stream`. Every request carries `Authorization: Bearer TOKEN`. The\n" +
		"complete description is [openapi.json](../api/spec/openapi.json).\n\n| GET | returns |\n|---|---|\n")
	for _, d := range doors() {
		var query []string
		for _, p := range d.params {
			if _, name, ok := strings.Cut(p, "."); ok {
				p = name
			}
			if p != "Range" && p != "Last-Event-ID" {
				query = append(query, p+"=")
			}
		}
		path := d.path
		if len(query) > 0 {
			path += "?" + strings.Join(query, "&")
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", path, d.summary)
	}
	return b.String()
}
