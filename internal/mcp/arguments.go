package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/near"
)

// argumentsOf returns the names of a tool's arguments.
func argumentsOf[In any]() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[In]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// registerArguments stores the names of a tool's arguments. It is called before the server serves.
func (c *conn) registerArguments(tool string, names []string) {
	if c.arguments == nil {
		c.arguments = map[string][]string{}
	}
	c.arguments[tool] = names
}

// otherNames maps argument names of other servers' tools to the names used here.
var otherNames = map[string][]string{
	"cmd": {"command"}, "script": {"command"}, "code": {"command"}, "program": {"command"},
	"cwd": {"working_dir"}, "dir": {"working_dir"}, "directory": {"working_dir"}, "workdir": {"working_dir"}, "path": {"working_dir"},
	"id": {"exec_id", "session", "dialogue"}, "name": {"session"}, "input": {"text", "stdin"}, "data": {"text"},
	"timeout": {"timeout_s"}, "timeout_ms": {"timeout_s"}, "environment": {"env"}, "pattern": {"match", "grep"}, "regex": {"match", "grep"},
	"message": {"text", "prompt"}, "task": {"prompt"}, "prompt": {"text"}, "limit": {"max_bytes"},
	"isolation": {"isolate"}, "profile": {"isolate"}, "sandbox": {"isolate"}, "memory": {"memory_bytes"}, "cpu": {"cpus"}, "processes": {"pids"},
}

// checkArguments refuses arguments that a tool does not have, with a suggestion that the SDK's own
// message lacks, and arguments that encoding/json would silently change.
func (c *conn) checkArguments(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if p, ok := r.GetParams().(*mcp.CallToolParamsRaw); ok && method == "tools/call" {
			err := checkJSON(p.Arguments)
			if err == nil {
				err = c.unknownArgument(p.Name, p.Arguments)
			}
			if err != nil {
				res := &mcp.CallToolResult{}
				res.SetError(err)
				return res, nil
			}
		}
		return next(ctx, method, r)
	}
}

// checkJSON refuses arguments that are not valid Unicode text, or in which a name appears twice.
func checkJSON(arguments json.RawMessage) error {
	if !json.Valid(arguments) {
		return nil // the SDK refuses it
	}
	if err := api.CheckJSON(arguments); err != nil {
		return fmt.Errorf("%s: %s", api.CodeInvalidParams, strings.TrimPrefix(api.AsError(err).Message, "params."))
	}
	return nil
}

func (c *conn) unknownArgument(tool string, arguments json.RawMessage) error {
	known, ok := c.arguments[tool]
	var given map[string]json.RawMessage
	if !ok || len(arguments) == 0 || json.Unmarshal(arguments, &given) != nil {
		return nil // the SDK refuses it
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(known, name) {
			continue
		}
		meant := ""
		for _, other := range otherNames[strings.ToLower(name)] {
			if meant == "" && slices.Contains(known, other) {
				meant = other
			}
		}
		if meant == "" {
			meant = near.Word(strings.ToLower(name), known, min(3, len(name)/2))
		}
		if meant != "" {
			return fmt.Errorf("INVALID_PARAMS: %s has no argument %q; did you mean %q?", tool, name, meant)
		}
		if len(known) == 0 {
			return fmt.Errorf("INVALID_PARAMS: %s takes no arguments, but got %q", tool, name)
		}
		return fmt.Errorf("INVALID_PARAMS: %s has no argument %q; it has %s", tool, name, strings.Join(known, ", "))
	}
	return nil
}
