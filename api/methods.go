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

// A Method is one row of the method table: its name on the wire, a summary, and how to
// call it on a Service.
type Method struct {
	Name    string
	Summary string
	// Params and Result are the Go types of the parameters and of the answer's data.
	Params, Result reflect.Type
	// Streams reports that pushes follow the answer. Call then returns a Stream.
	Streams bool
	// Endless reports that the stream goes on until its session, its dialogue or its reader
	// ends. The stream of a command is not endless: it ends with the command.
	Endless bool
	// Names reports that the method takes a name to which the caller's later requests may refer. On
	// a connection, a later request is started when the name is taken; see Named.
	Names bool
	// Access is what a caller needs in order to call the method. A caller with AccessRead may
	// also call some methods that need AccessFull, with parameters that change nothing; see
	// Changes.
	Access Access
	// Strict reports that the method rejects unknown parameters, because a typo would be
	// dangerous. A misspelt timeout_s would let a command run without a limit.
	Strict bool

	// onlyReads reports whether a call of a method with AccessFull changes nothing, because of
	// its parameters. Nil: no call does.
	onlyReads func(params json.RawMessage) bool
	call      func(ctx context.Context, s Service, params json.RawMessage, beside []byte, strict bool) (any, error)
}

// Access is the permission that a caller needs, and the scope of a token.
type Access string

// The kinds of access. Full access includes read access.
const (
	AccessRead Access = "read" // the method changes nothing
	AccessFull Access = "full" // the method may change something
	// AccessLocal is for callers on the socket or on stdio, who are the daemon's own user. A token
	// is not enough: otherwise a caller of HTTP could open the daemon to others.
	AccessLocal Access = "local"
)

// Methods is the one list of the methods on the wire. It is a function, so that programs
// that do not call it, such as the runner, do not contain it. Callers must not change the list.
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
		read(unary("system.ping", "Answer with uptime and version.", Service.SystemPing)),
		read(unary("system.stats", "Count sessions, commands and the daemon's own resources.", Service.SystemStats)),
		read(unary("system.info", "Report version, platform, limits, capabilities and methods.", Service.SystemInfo)),
		read(strict(unary("system.settings", "Return the settings that the daemon runs with, without secrets.", Service.SystemSettings))),
		full(strict(unary("system.doctor", "Check the daemon and its machine: directories, places, limits, isolation, and a session with every shell.", Service.SystemDoctor))),
		read(strict(endless(stream("system.log", "Push the last records of the daemon's log, and those that follow.", Service.SystemLog)))),
		names(read(strict(unary("system.hello", "Give this connection a label, which shows other clients who answered or changed something.", Service.SystemHello)))),
		full(strict(unary("system.upgrade", "Replace the daemon with a new program. Its socket and its sessions stay.", Service.SystemUpgrade))),
		local(strict(unary("system.http", "Turn HTTP on or off while the daemon runs, or report whether it is on.", Service.SystemHTTP))),
		local(strict(unary("web.open", "Return an address for a browser that shows the console. Turns HTTP on if it is off.", Service.WebOpen))),
		full(strict(unary("web.share", "Return an address at which browsers can watch one session or dialogue. On the socket and on stdio, turns HTTP on if it is off.", Service.WebShare))),
		read(unary("web.list", "List the browsers that are logged in to the console, and the shares.", Service.WebList)),
		full(strict(unary("web.revoke", "Log browsers out of the console, or end shares.", Service.WebRevoke))),
		read(unary("runtime.list", "List the places where sessions can be created.", Service.RuntimeList)),
		full(strict(unary("runtime.check", "Report whether sessions can be created in a place, or why not.", Service.RuntimeCheck))),
		full(strict(unary("runtime.prune", "Remove containers, pods and remains of TRL that belong to no session.", Service.RuntimePrune))),
		full(strict(unary("guest.start", "Start the runner of a session that belongs to another daemon.", Service.GuestStart))),
		full(strict(endless(stream("guest.connect", "Push the bytes of a guest's runner, for its owner.", Service.GuestConnect)))),
		full(strict(unary("guest.send", "Pass bytes of the owner on to a guest's runner.", Service.GuestSend))),
		full(strict(unary("guest.end", "End a guest and every process in it.", Service.GuestEnd))),
		full(strict(unary("guest.list", "List the sessions of other daemons that have their runners here.", Service.GuestList))),
		names(full(strict(unary("session.create", "Start a session: a persistent shell, a terminal or a program.", Service.SessionCreate)))),
		read(unary("session.list", "List the sessions.", Service.SessionList)),
		read(unary("session.info", "Report everything about one session.", Service.SessionInfo)),
		full(strict(unary("session.set", "Change the name, the tags, the lifetime or the idle timeout of a session.", Service.SessionSet))),
		full(strict(unary("session.own", "Tie an ephemeral session to this connection, after its owner has reconnected.", Service.SessionOwn))),
		full(strict(unary("session.destroy", "End a session and every process in it.", Service.SessionDestroy))),
		full(strict(unary("session.input", "Type into a terminal, or write to the stdin of a program.", Service.SessionInput))),
		full(strict(unary("session.resize", "Change the size of a terminal.", Service.SessionResize))),
		read(strict(unary("session.screen", "Return the screen of a terminal: text, cursor, title, modes; or only the changed rows.", Service.SessionScreen))),
		read(strict(unary("session.wait", "Wait until a terminal shows a text, falls silent, waits for input or ends.", Service.SessionWait))),
		fullUnless(SessionAttachParams.Watches, strict(endless(stream("session.attach", "Push the screen of a terminal, as bytes to write to a terminal, and all further output.", Service.SessionAttach)))),
		read(strict(unary("session.recording", "Read the recording of a terminal.", Service.SessionRecording))),
		read(strict(unary("recording.list", "List the recordings of terminals, including those of sessions that are no longer known.", Service.RecordingList))),
		read(strict(unary("recording.read", "Read a piece of a recording.", Service.RecordingRead))),
		full(strict(unary("recording.delete", "Delete the recording of a session that has ended.", Service.RecordingDelete))),
		full(strict(unary("exec.run", "Run a command in a session and wait for its outcome.", Service.ExecRun))),
		full(strict(unary("exec.start", "Start a command in a session and return at once.", Service.ExecStart))),
		fullUnless(ExecStreamParams.Follows, strict(stream("exec.stream", "Run a command and push its output as it comes, or push the output of an earlier command.", Service.ExecStream))),
		read(strict(unary("exec.output", "Read the output of a command: from an offset, from the end, or the lines that match.", Service.ExecOutput))),
		full(strict(unary("exec.input", "Write to the stdin of a running command, or type into its terminal.", Service.ExecInput))),
		read(strict(unary("exec.wait", "Wait until a command exits, prints something, falls silent or waits for input.", Service.ExecWait))),
		full(strict(unary("exec.signal", "Send a signal to a running command.", Service.ExecSignal))),
		full(strict(unary("exec.cancel", "Stop a command and everything it started.", Service.ExecCancel))),
		read(unary("exec.info", "Report the state and outcome of one command.", Service.ExecInfo)),
		read(unary("exec.list", "List the commands of one session, or of all.", Service.ExecList)),
		full(strict(unary("dialogue.create", "Start a conversation with a coding agent, in its own session.", Service.DialogueCreate))),
		read(unary("dialogue.list", "List the dialogues.", Service.DialogueList)),
		read(unary("dialogue.info", "Report everything about one dialogue.", Service.DialogueInfo)),
		read(strict(unary("dialogue.requests", "List the requests that wait for an answer, over all dialogues.", Service.DialogueRequests))),
		full(strict(unary("dialogue.send", "Send the agent a message.", Service.DialogueSend))),
		full(strict(unary("dialogue.unsend", "Take back a message that the agent has not started with.", Service.DialogueUnsend))),
		full(strict(unary("dialogue.interrupt", "Stop the agent's current turn; the dialogue goes on.", Service.DialogueInterrupt))),
		full(strict(unary("dialogue.respond", "Answer a request of the agent: a permission, a question, a plan.", Service.DialogueRespond))),
		full(strict(unary("dialogue.set", "Change the model, the permission mode or the policy.", Service.DialogueSet))),
		read(strict(endless(stream("dialogue.events", "Push the events of a dialogue, starting at any event.", Service.DialogueEvents)))),
		read(strict(unary("dialogue.transcript", "Return the transcript, or a page of it: turns, items, tool calls, tasks, requests.", Service.DialogueTranscript))),
		read(strict(unary("dialogue.item", "Return one item of the transcript, or a piece of one of its fields.", Service.DialogueItem))),
		read(strict(unary("dialogue.search", "Find the items of the transcript that have a text.", Service.DialogueSearch))),
		read(strict(unary("dialogue.lines", "Read the lines between TRL and the agent's program, with the events that they caused.", Service.DialogueLines))),
		read(strict(unary("dialogue.raw", "Read the raw output of the agent's program, byte for byte.", Service.DialogueRaw))),
		full(strict(unary("dialogue.terminate", "End the agent's program and everything it started.", Service.DialogueTerminate))),
		full(strict(unary("dialogue.resume", "Start the agent again, in the same dialogue.", Service.DialogueResume))),
		full(strict(unary("dialogue.retry", "Try again to reach the agent of a dialogue in state error.", Service.DialogueRetry))),
		read(strict(endless(stream("event.subscribe", "Push the events of sessions, commands and dialogues.", Service.EventSubscribe)))),
		read(strict(unary("stream.close", "End one stream of this connection.", Service.StreamClose))),
		read(strict(endless(stream("usage.subscribe", "Push the resources that sessions use: processor, memory, processes, disk.", Service.UsageSubscribe)))),
		read(strict(unary("audit.list", "List the calls that changed something: who, from where, with which outcome.", Service.AuditList))),
		read(strict(endless(stream("audit.subscribe", "Push the records of the audit log as they are written.", Service.AuditSubscribe)))),
		read(unary("audit.verify", "Check the hash chain of the audit log.", Service.AuditVerify)),
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
	return m.CallWith(ctx, s, params, nil)
}

// CallWith is Call with bytes that came beside the parameters and stand for their data. Only
// exec.input and guest.send take any.
func (m Method) CallWith(ctx context.Context, s Service, params json.RawMessage, beside []byte) (any, error) {
	data, err := m.call(ctx, s, params, beside, m.Strict)
	if err != nil {
		return nil, AsError(err)
	}
	return data, nil
}

// Changes reports whether a call with these parameters may change something, so that it needs
// full access.
func (m Method) Changes(params json.RawMessage) bool {
	return m.Access != AccessRead && (m.onlyReads == nil || !m.onlyReads(params))
}

// MayRead reports whether the method has calls that change nothing: all, or those whose
// parameters say so.
func (m Method) MayRead() bool { return m.Access == AccessRead || m.onlyReads != nil }

func unary[P, R any](name, summary string, f func(Service, context.Context, P) (R, error)) Method {
	return Method{
		Name: name, Summary: summary, Params: reflect.TypeFor[P](), Result: reflect.TypeFor[R](),
		call: func(ctx context.Context, s Service, params json.RawMessage, beside []byte, strict bool) (any, error) {
			var p P
			if err := decodeParams(params, &p, strict); err != nil {
				return nil, err
			}
			if len(beside) > 0 {
				to, ok := any(&p).(interface{ attach([]byte) })
				if !ok {
					return nil, Errorf(CodeInvalidParams, "method %q: takes no bytes beside its parameters", name)
				}
				to.attach(beside)
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

func names(m Method) Method {
	m.Names = true
	return m
}

func read(m Method) Method {
	m.Access = AccessRead
	return m
}

func full(m Method) Method {
	m.Access = AccessFull
	return m
}

func local(m Method) Method {
	m.Access = AccessLocal
	return m
}

// checked is the parameters of a method.
type checked interface{ Check() error }

// fullUnless is full, except for calls with valid parameters of which onlyReads is true.
func fullUnless[P checked](onlyReads func(P) bool, m Method) Method {
	m.onlyReads = func(params json.RawMessage) bool {
		var p P
		return decodeParams(params, &p, m.Strict) == nil && p.Check() == nil && onlyReads(p)
	}
	return full(m)
}

// Check decodes params as Call does, and reports the first fault.
func (m Method) Check(params json.RawMessage) error {
	return decodeParams(params, reflect.New(m.Params).Interface(), m.Strict)
}

// decodeParams fills p from JSON. It returns an error that names the field if a field has the
// wrong type, has a name with the wrong letter case, appears twice, or, in strict mode, is
// unknown.
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
		return InvalidParam(wrongType.Field, "must be %s, not %s", jsonType(wrongType.Type), wrongType.Value)
	}
	return Errorf(CodeInvalidParams, "params: %s", strings.TrimPrefix(err.Error(), "json: "))
}

// jsonType describes a Go type in JSON terms, for people.
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
