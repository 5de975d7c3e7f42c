package acp

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// inputPaths returns the paths in the input of a tool, at any depth. ACP does not define the fields
// of an input, so the name of a field shows that it has a path. One path too many only makes the
// rules stricter.
func inputPaths(raw json.RawMessage) (paths []string) {
	var input any
	if json.Unmarshal(raw, &input) != nil {
		return nil
	}
	var walk func(field string, value any)
	walk = func(field string, value any) {
		switch v := value.(type) {
		case string:
			if isPlace(field) || isEnd(field, v) {
				paths = append(paths, v)
			}
		case []any:
			for _, element := range v {
				walk(field, element)
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				if isKeyed(field) && !isPlace(name) {
					paths = append(paths, name)
				}
				walk(name, v[name])
			}
		}
	}
	walk("", input)
	return paths
}

// isPlace reports whether a field of that name has a path, or a list of paths.
func isPlace(field string) bool { return placeField().MatchString(field) }

var placeField = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i:path|filename)s?$|(?:^|[_-])(?i:files?)$|[a-z0-9]Files?$`)
})

// isEnd reports whether a field of that name has a path if its text looks like one. It may also have
// a text of another kind, such as the source of a program.
func isEnd(field, text string) bool {
	switch field {
	case "source", "destination", "src", "dst", "dest", "target":
		return strings.Contains(text, "/") && !strings.Contains(text, "\n")
	}
	return false
}

// isKeyed reports whether the keys of an object in a field of that name are paths: Codex's agent for
// ACP sends {"changes": {"/src/a.go": {…}}}.
func isKeyed(field string) bool { return field == "changes" || isPlace(field) }
