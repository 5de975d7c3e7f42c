package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// A Method is one row of the method table: a name on the wire, what it does, and
// how to call it on a Service.
type Method struct {
	Name    string
	Summary string
	// Params and Result are the Go types of the parameters and of the answer's data.
	Params, Result reflect.Type
	// Streams says that pushes follow the answer. Call then returns a Stream.
	Streams bool
	// Endless says that the stream goes on until its session, its dialogue or its reader
	// ends; that of a command ends with the command.
	Endless bool
	// Reads says that the method changes nothing: a caller that may only look can use it.
	Reads bool
	// Strict says that an unknown parameter is refused: where a typo would be
	// dangerous. A mistyped timeout_s would let a command run for ever.
	Strict bool

	call func(ctx context.Context, s Service, params json.RawMessage, strict bool) (any, error)
}

// Methods is the one list of what exists on the wire. It is a function, so that a program
// that does not call it, as the runner, does not carry it. The list is not to be changed.
func Methods() []Method {
	making.Do(func() { methods = list() })
	return methods
}

var (
	making  sync.Once
	methods []Method // set by making
)

func list() []Method {
	return []Method{
		reads(unary("system.ping", "Answer with uptime and version.", Service.SystemPing)),
		reads(unary("system.stats", "Count sessions, commands and the daemon's own resources.", Service.SystemStats)),
		reads(unary("system.info", "Tell version, platform, limits, capabilities and methods.", Service.SystemInfo)),
		strict(unary("system.upgrade", "Replace the daemon by a new program, without dropping its socket or its sessions.", Service.SystemUpgrade)),
		strict(unary("session.create", "Start a session: a place to work with a living shell.", Service.SessionCreate)),
		reads(unary("session.list", "List the sessions.", Service.SessionList)),
		reads(unary("session.info", "Tell everything about one session.", Service.SessionInfo)),
		strict(unary("session.set", "Give a session another name, other tags, or another time at which it ends by itself.", Service.SessionSet)),
		strict(unary("session.own", "Tie an ephemeral session to this connection, whose owner came back.", Service.SessionOwn)),
		strict(unary("session.destroy", "End a session and every process in it.", Service.SessionDestroy)),
		strict(unary("session.input", "Type into a terminal, or write to the stdin of a program.", Service.SessionInput)),
		strict(unary("session.resize", "Give a terminal another size.", Service.SessionResize)),
		reads(strict(unary("session.screen", "Tell what a terminal shows: text, cursor, title, modes; or what changed.", Service.SessionScreen))),
		reads(strict(unary("session.wait", "Wait until a terminal shows a text, falls silent, waits for input or ends.", Service.SessionWait))),
		strict(endless(stream("session.attach", "Push the screen of a terminal as bytes for a terminal, and all that follows.", Service.SessionAttach))),
		reads(strict(unary("session.recording", "Read the recording of a terminal.", Service.SessionRecording))),
		strict(unary("exec.run", "Run a command in a session and wait for its outcome.", Service.ExecRun)),
		strict(unary("exec.start", "Start a command in a session and answer at once.", Service.ExecStart)),
		strict(stream("exec.stream", "Run a command and push its output as it comes; or push that of one started before.", Service.ExecStream)),
		reads(strict(unary("exec.output", "Read the output of a command, by offset, from the end, or the lines that match.", Service.ExecOutput))),
		strict(unary("exec.input", "Write to the stdin of a running command.", Service.ExecInput)),
		reads(strict(unary("exec.wait", "Wait until a command exits, prints something, falls silent or waits for input.", Service.ExecWait))),
		strict(unary("exec.cancel", "Stop a command and everything it started.", Service.ExecCancel)),
		reads(unary("exec.info", "Tell the state and outcome of one command.", Service.ExecInfo)),
		reads(unary("exec.list", "List the commands of one session, or of all.", Service.ExecList)),
		strict(unary("dialogue.create", "Start a conversation with a coding agent, in a session of its own.", Service.DialogueCreate)),
		reads(unary("dialogue.list", "List the dialogues.", Service.DialogueList)),
		reads(unary("dialogue.info", "Tell everything about one dialogue.", Service.DialogueInfo)),
		strict(unary("dialogue.send", "Give the agent a message.", Service.DialogueSend)),
		strict(unary("dialogue.interrupt", "Stop what the agent does now; the dialogue goes on.", Service.DialogueInterrupt)),
		strict(unary("dialogue.respond", "Answer a request of the agent: a permission, a question, a plan.", Service.DialogueRespond)),
		strict(unary("dialogue.set", "Change the model, the permission mode or the policy.", Service.DialogueSet)),
		reads(strict(endless(stream("dialogue.events", "Push what happens in a dialogue, from any event on.", Service.DialogueEvents)))),
		reads(strict(unary("dialogue.transcript", "Tell the transcript: turns, items, tool calls, tasks, requests.", Service.DialogueTranscript))),
		reads(strict(unary("dialogue.raw", "Read what the agent's program wrote, byte for byte.", Service.DialogueRaw))),
		strict(unary("dialogue.terminate", "End the agent's program and everything it started.", Service.DialogueTerminate)),
		strict(unary("dialogue.resume", "Start the agent again, in the same dialogue.", Service.DialogueResume)),
		strict(unary("dialogue.retry", "Look again for an agent that could not be reached.", Service.DialogueRetry)),
		reads(strict(endless(stream("event.subscribe", "Push what happens to sessions and commands.", Service.EventSubscribe)))),
	}
}

// FindMethod returns the row of Methods with that name.
func FindMethod(name string) (Method, bool) {
	for _, m := range Methods() {
		if m.Name == name {
			return m, true
		}
	}
	return Method{}, false
}

// Call decodes params and calls the method. Params may be absent or null. The
// answer is the result, or a Stream for a method that streams; the error, if any,
// is always an *Error.
func (m Method) Call(ctx context.Context, s Service, params json.RawMessage) (any, error) {
	data, err := m.call(ctx, s, params, m.Strict)
	if err != nil {
		return nil, AsError(err)
	}
	return data, nil
}

// Changes reports whether a call with these parameters may change something. Beside
// the methods that only read, exec.stream does not when it follows a command that was
// started before, and session.attach does not when it is read-only.
func (m Method) Changes(params json.RawMessage) bool {
	switch {
	case m.Name == "exec.stream":
		var p ExecStreamParams
		return decodeParams(params, &p, m.Strict) != nil || p.ExecID == "" || p.Check() != nil
	case m.Name == "session.attach":
		var p SessionAttachParams
		return decodeParams(params, &p, m.Strict) != nil || !p.ReadOnly || p.Check() != nil
	}
	return !m.Reads
}

func unary[P, R any](name, summary string, f func(Service, context.Context, P) (R, error)) Method {
	return Method{
		Name: name, Summary: summary, Params: reflect.TypeFor[P](), Result: reflect.TypeFor[R](),
		call: func(ctx context.Context, s Service, params json.RawMessage, strict bool) (any, error) {
			var p P
			if err := decodeParams(params, &p, strict); err != nil {
				return nil, err
			}
			if g, ok := any(&p).(interface{ given(json.RawMessage) }); ok {
				g.given(params)
			}
			return f(s, ctx, p)
		},
	}
}

func stream[P any](name, summary string, f func(Service, context.Context, P) (Stream, error)) Method {
	m := unary(name, summary, f)
	m.Result, m.Streams = reflect.TypeFor[StreamStart](), true
	return m
}

func endless(m Method) Method {
	m.Endless = true
	return m
}

func strict(m Method) Method {
	m.Strict = true
	return m
}

func reads(m Method) Method {
	m.Reads = true
	return m
}

// Check decodes params as Call does, and reports what is wrong with them.
func (m Method) Check(params json.RawMessage) error {
	return decodeParams(params, reflect.New(m.Params).Interface(), m.Strict)
}

// decodeParams fills p from JSON. A field of the wrong type, one whose name is not exactly
// right or is given twice, or in strict mode one that is not known, is an error that names
// the field.
func decodeParams(params json.RawMessage, p any, strict bool) error {
	params = bytes.TrimSpace(params)
	if len(params) == 0 || string(params) == "null" {
		return nil
	}
	if params[0] != '{' {
		return Errorf(CodeInvalidParams, "params: must be a JSON object")
	}
	err := json.Unmarshal(params, p)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return Errorf(CodeInvalidParams, "params: not JSON: %s", err)
	}
	if bad := checkNames(params, reflect.TypeOf(p), strict); bad != nil || err == nil {
		return bad
	}
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		e := Errorf(CodeInvalidParams, "params.%s: must be %s, not %s", wrongType.Field, jsonType(wrongType.Type), wrongType.Value)
		e.Details = map[string]any{"field": wrongType.Field}
		return e
	}
	return Errorf(CodeInvalidParams, "params: %s", strings.TrimPrefix(err.Error(), "json: "))
}

// jsonType names a Go type in the words of JSON, for people.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return fmt.Sprintf("a %s", t)
}
