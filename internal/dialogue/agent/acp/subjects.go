package acp

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue/agent"
)

// subject is the command, path, address or text that a tool is used on. The policy compares its
// rules with it.
type subject struct {
	text   string
	kind   string   // command, path, address, or empty
	source string   // as in api.DialogueRequest
	paths  []string // all files that the call names, if they are not the text alone
}

// request has the fields of the subject in a request.
func (s subject) request() api.DialogueRequest {
	return api.DialogueRequest{Subject: s.text, SubjectKind: s.kind, SubjectSource: s.source, Paths: s.paths}
}

// findSubject finds the subject of a tool call, and the files that the call names beside it: those
// that the agent lists, those that it shows a difference of, and those in the input.
func findSubject(tool *api.DialogueToolCall, files []string) subject {
	s := mainSubject(tool, files)
	named := slices.Clone(files)
	for _, part := range tool.Output {
		if part.Type == "diff" && !isNameOf(part.Path, files) {
			named = append(named, part.Path)
		}
	}
	if tool.Kind != "execute" && tool.Kind != "fetch" {
		named = append(named, inputPaths(tool.Input)...)
	}
	s.paths = agent.OtherPaths(s.text, named)
	return s
}

// isNameOf reports whether a name without a directory stands for one of the files that the agent lists:
// Gemini CLI up to 0.30 shows the difference of /src/a.go as one of a.go.
func isNameOf(name string, files []string) bool {
	return !strings.Contains(name, "/") && slices.ContainsFunc(files, func(f string) bool { return path.Base(f) == name })
}

// mainSubject finds the subject of a tool call in its input, in the files that the agent names,
// and last in the texts for people. Some agents, such as Gemini CLI, have the command nowhere
// else.
func mainSubject(tool *api.DialogueToolCall, files []string) subject {
	s, clear := inputSubject(tool.Kind, tool.Input, files)
	if s.text != "" || !clear {
		return s
	}
	var diffs []string
	var words []string
	for _, part := range tool.Output {
		switch {
		case part.Type == "diff" && part.Path != "":
			diffs = append(diffs, part.Path)
		case part.Text != "" && !whereItRuns().MatchString(part.Text):
			words = append(words, part.Text)
		}
	}
	if place := agent.CommonPath(diffs); place != "" && tool.Kind != "execute" && tool.Kind != "fetch" {
		return subject{text: place, kind: "path", source: "locations"}
	}
	return wordsSubject(tool, strings.Join(words, "\n"))
}

// whereItRuns is the whole content of a request of Gemini CLI, which has the command in its title.
var whereItRuns = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*\[current working directory [^\n\]]*\]\s*$`)
})

// mostWords bounds a subject from texts for people. A longer text is no subject, because a rule
// must not decide on a part of it.
const mostWords = 64 << 10

// wordsSubject takes the subject from the title and the content of a call. It takes both, because
// either may be a mere label, such as "Shell".
func wordsSubject(tool *api.DialogueToolCall, content string) subject {
	s := subject{text: strings.TrimSpace(tool.Title), source: "title"}
	if content = strings.TrimSpace(content); content != "" && content != s.text {
		if s.source = "content"; s.text != "" {
			s.source = "title_and_content"
		}
		s.text = strings.TrimSpace(s.text + "\n" + content)
	}
	if s.text == "" || len(s.text) > mostWords {
		return subject{}
	}
	// A title that consists of Markdown code stands for that code.
	if inner := strings.Trim(s.text, "`"); s.source == "title" && s.text == "`"+inner+"`" && !strings.Contains(inner, "`") {
		s.text = inner
	}
	if tool.Kind == "execute" {
		s.kind = "command"
	}
	return s
}

// inputSubject finds the subject in the input of a tool and in the files that the agent names.
// ACP does not define the fields of an input; these are the usual names. The subject is not clear if
// a tool of the kind other has more than one of a command, a path and an address: only the agent
// knows which of them the tool uses.
func inputSubject(kind string, raw json.RawMessage, files []string) (s subject, clear bool) {
	var input map[string]json.RawMessage
	json.Unmarshal(raw, &input)
	field := func(names ...string) (found string) {
		for _, name := range names {
			var text string
			var words []string
			if json.Unmarshal(input[name], &text) != nil && json.Unmarshal(input[name], &words) == nil {
				text = strings.Join(words, " ")
			}
			if found == "" {
				found = text
			} else if text != "" && text != found {
				return "" // only the agent knows which of them its tool uses
			}
		}
		return found
	}
	place, source := agent.CommonPath(files), "locations"
	has := func(names []string) int {
		if slices.ContainsFunc(names, func(name string) bool { return hasValue(input[name]) }) {
			return 1
		}
		return 0
	}
	places := has(placeFields)
	if place != "" {
		places = 1
	}
	if kind == "other" && has(commandFields)+places+has(addressFields) > 1 {
		return subject{}, false
	}
	if p := field(placeFields...); place == "" && p != "" {
		place, source = agent.CleanPath(p), "input"
	}
	command, address := field(commandFields...), field(addressFields...)
	if args := field("args", "arguments"); args != "" && command != "" {
		command += " " + args
	} else if hasValue(input["args"]) || hasValue(input["arguments"]) {
		command = "" // a command without its arguments is another command
	}
	switch {
	case kind == "execute" || kind == "other" && command != "":
		s = subject{text: command, kind: "command", source: "input"}
	case kind == "fetch":
		s = subject{text: address, kind: "address", source: "input"}
	case kind == "search" && place == "" && field("pattern") != "":
		s = subject{text: ".", kind: "path", source: "input"}
	case kind == "search" && place == "":
		s = subject{text: field("query"), source: "input"}
	case place != "":
		s = subject{text: place, kind: "path", source: source}
	default:
		s = subject{text: address, kind: "address", source: "input"}
	}
	if s.text == "" {
		return subject{}, true
	}
	return s, true
}

// The usual names of fields.
var (
	commandFields = []string{"command", "cmd"}
	placeFields   = []string{"file_path", "filePath", "filepath", "path", "abs_path", "dir_path"}
	addressFields = []string{"url", "uri"}
)

// hasValue reports whether a field of an input has a value that is not empty.
func hasValue(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", `""`, "[]", "{}":
		return false
	}
	return true
}
