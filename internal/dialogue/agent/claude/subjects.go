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
		switch {
		case in.text("command") != "":
			command()
		case in.text("file_path") != "" || in.text("notebook_path") != "" || in.text("path") != "":
			place(cmp.Or(in.text("file_path"), in.text("notebook_path"), in.text("path")))
		case in.text("url") != "":
			address()
		default:
			s.text = cmp.Or(in.text("pattern"), in.text("query"))
			if s.text == "" {
				s.text, s.isTitle = s.title, true
			}
		}
	}
	if s.text == "" {
		s.kind = ""
	}
	return s
}
