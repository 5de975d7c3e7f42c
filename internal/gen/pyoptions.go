package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// options are the keyword arguments of a method of the Python clients: the parameters of a type,
// without those that the method sets itself.
type options struct {
	name, doc string
	from      string
	without   []string
	with      []string // if set, only these
}

var terminalFields = []string{"command", "cols", "rows", "term", "scrollback", "record", "record_input"}

var pythonOptions = []options{
	{name: "SessionOptions", doc: "The options of a session with a shell.", from: "SessionCreateParams", without: slices.Concat([]string{"kind"}, terminalFields)},
	{name: "TerminalOptions", doc: "The options of a terminal.", from: "SessionCreateParams", without: []string{"kind", "timeout_s"}},
	{name: "ProgramOptions", doc: "The options of the session of a program.", from: "SessionCreateParams",
		without: slices.Concat([]string{"kind", "timeout_s", "shell", "prefer_shell", "login", "rc"}, terminalFields)},
	{name: "SessionSetOptions", doc: "The changes to a session.", from: "SessionSetParams", without: []string{"session_id"}},
	{name: "ScreenOptions", doc: "The part and form of a screen.", from: "SessionScreenParams", without: []string{"session_id"}},
	{name: "SessionWaitOptions", doc: "The conditions of a wait for a terminal or program.", from: "SessionWaitParams", without: []string{"session_id"}},
	{name: "ViewerOptions", doc: "The options of a viewer of a terminal.", from: "SessionAttachParams", without: []string{"session_id", "snapshot"}},
	{name: "RunOptions", doc: "The options of a command that runs to its end.", from: "ExecParams",
		without: []string{"session_id", "command", "argv", "stdin_base64", "stdin_open", "backpressure", "run_id"}},
	{name: "OneRunOptions", doc: "The options of a command in a session of its own.", from: "ExecParams",
		with: []string{"working_dir", "env", "timeout_s", "stdin", "max_output_bytes"}},
	{name: "StartOptions", doc: "The options of a command that starts and runs on.", from: "ExecParams",
		without: []string{"session_id", "command", "argv", "stdin_base64", "backpressure", "run_id"}},
	{name: "StreamOptions", doc: "The options of a new command whose output is pushed.", from: "ExecStreamParams",
		without: []string{"session_id", "command", "argv", "stdin_base64", "run_id", "max_output_bytes", "exec_id", "after_seq", "from_offset"}},
	{name: "AttachOptions", doc: "The part of a command's output that is pushed.", from: "ExecStreamParams", with: []string{"after_seq", "from_offset", "stream"}},
	{name: "OutputOptions", doc: "The part of a command's output to read.", from: "ExecOutputParams", without: []string{"exec_id"}},
	{name: "WaitOptions", doc: "The conditions of a wait for commands.", from: "ExecWaitParams", without: []string{"exec_ids", "session_ids", "all", "any"}},
	{name: "EventOptions", doc: "The events that are pushed.", from: "EventSubscribeParams"},
	{name: "DialogueOptions", doc: "The options of a dialogue.", from: "DialogueCreateParams", without: []string{"agent"}},
	{name: "AnswerOptions", doc: "The answer to a request of the agent.", from: "DialogueRespondParams", without: []string{"dialogue_id", "request_id"}},
	{name: "SetOptions", doc: "The changes to a dialogue.", from: "DialogueSetParams", without: []string{"dialogue_id"}},
	{name: "DialogueEventOptions", doc: "The events of a dialogue that are pushed.", from: "DialogueEventsParams", without: []string{"dialogue_id"}},
	{name: "RawOptions", doc: "The part of the raw output or input of the agent's program.", from: "DialogueRawParams", without: []string{"dialogue_id"}},
}

const optionsHead = `# %s
"""The keyword arguments of the clients. None stands for the daemon's default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from . import types as _types
from ._stdin import Stdin
`

// writeOptions writes the keyword arguments of the Python clients.
func writeOptions(c *contract) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, optionsHead, notice)
	for _, opts := range pythonOptions {
		i := slices.IndexFunc(c.objects, func(o *object) bool { return o.name == opts.from })
		if i < 0 {
			return nil, fmt.Errorf("%s: there is no type %s", opts.name, opts.from)
		}
		fields := c.objects[i].allFields()
		for _, name := range slices.Concat(opts.without, opts.with) {
			if !slices.ContainsFunc(fields, func(f field) bool { return f.name == name }) {
				return nil, fmt.Errorf("%s: %s has no field %s", opts.name, opts.from, name)
			}
		}
		fmt.Fprintf(&b, "\n\nclass %s(TypedDict, total=False):\n", opts.name)
		docstring(&b, "    ", opts.doc)
		for _, f := range fields {
			if slices.Contains(opts.without, f.name) || opts.with != nil && !slices.Contains(opts.with, f.name) {
				continue
			}
			typ, doc := f.typ.pythonArgument(), f.fullDoc()
			if f.name == "stdin" && strings.HasPrefix(opts.from, "Exec") {
				typ, doc = "str | bytes | None", "The command's standard input: text, or exact bytes. Absent: empty."
				if opts.name == "StartOptions" || opts.name == "StreamOptions" {
					typ = "str | bytes | Literal[Stdin.OPEN] | None"
				}
			}
			fmt.Fprintf(&b, "\n    %s: %s\n", f.name, typ)
			docstring(&b, "    ", doc)
		}
		if opts.name == "OneRunOptions" {
			b.WriteString("\n    shell: str\n    \"\"\"The shell of the session.\"\"\"\n")
		}
	}
	return b.Bytes(), nil
}

// pythonArgument returns the type of an argument, which may be any mapping or any sequence.
func (k kind) pythonArgument() string {
	switch {
	case k.word == "enum" || k.word == "object":
		return "_types." + k.python()
	case k.word == "map":
		return "Mapping[str, " + k.elem.pythonArgument() + "]"
	case k.word == "list" && k.single:
		return k.elem.pythonArgument() + " | Sequence[" + k.elem.pythonArgument() + "]"
	case k.word == "list":
		return "Sequence[" + k.elem.pythonArgument() + "]"
	}
	return k.python()
}
