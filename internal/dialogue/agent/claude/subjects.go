package claude

import (
	"cmp"
	"encoding/json"
	"path"
	"strings"
)

// subject is the command, path, address or text that a tool is used on. The policy compares its
// rules with it, so it is exactly the input of the tool.
type subject struct {
	text  string
	kind  string // command, path, address, or empty
	title string // for people
	// isTitle says that the text is only a description, which the model wrote for people.
	isTitle bool
	// unclear says that the input has several texts, or none, where the subject should be.
	unclear bool
}

// toolSubject finds the subject of a tool call. For a known tool it reads only the field that
// the tool uses, because the model may give others.
func toolSubject(name string, input json.RawMessage) subject {
	in := readFields(input)
	s := subject{title: in.text("description")}
	command := func() { s.text, s.kind = in.text("command"), "command" }
	address := func() { s.text, s.kind = in.text("url"), "address" }
	place := func(where string) { s.text, s.kind = where, "path" }
	switch name {
	case "Bash", "PowerShell":
		command()
	case "Read", "Edit", "MultiEdit", "Write":
		place(in.text("file_path"))
	case "NotebookRead", "NotebookEdit":
		place(in.text("notebook_path"))
	case "LS":
		place(in.text("path"))
	case "Grep", "Glob":
		s.title = in.text("pattern")
		place(cmp.Or(in.text("path"), "."))
		if name == "Glob" && path.IsAbs(s.title) { // the pattern itself says where to look
			fixed := s.title
			if i := strings.IndexAny(fixed, "*?[{"); i >= 0 {
				fixed = fixed[:i]
			}
			place(fixed[:strings.LastIndexByte(fixed, '/')+1])
		}
	case "WebFetch":
		address()
	case "WebSearch", "ToolSearch":
		s.text = in.text("query")
	case "Skill":
		s.text = in.text("skill")
	case "Agent", "Task":
		s.text, s.isTitle = s.title, true
	default:
		s = guessedSubject(in, s)
	}
	if s.text == "" {
		s.kind = ""
	}
	return s
}

// guessedSubject finds the subject of a tool that TRL does not know. If more than one of the usual
// fields has a value, the subject is unclear: only the tool knows which of them it uses, and the
// model may have added the others to get around a rule.
func guessedSubject(in fields, s subject) subject {
	found := 0
	for _, usual := range []struct{ name, kind string }{
		{"command", "command"}, {"file_path", "path"}, {"notebook_path", "path"}, {"path", "path"}, {"url", "address"},
	} {
		if in.wording(usual.name) == "" {
			continue
		}
		found++
		s.text, s.kind = in.text(usual.name), usual.kind
	}
	if found > 1 || found == 1 && s.text == "" {
		s.text, s.unclear = "", true
		return s
	}
	if found == 0 {
		if s.text = cmp.Or(in.text("pattern"), in.text("query")); s.text == "" {
			s.text, s.isTitle = s.title, true
		}
	}
	return s
}
