// Command serve runs the scripted models for tests that are not written in Go. It writes one line of
// JSON, with the paths of the real agents and what they need to talk to the models, and ends when
// its stdin does.
package main

import (
	"encoding/json"
	"io"
	"log"
	"os"

	"github.com/trl-dev/trl/tests/dialogue/model"
	"github.com/trl-dev/trl/tests/dialogue/programs"
)

func main() {
	messages, responses := model.ServeAnthropic(), model.ServeOpenAI()
	defer messages.Close()
	defer responses.Close()
	claude, codex := programs.Installed()
	err := json.NewEncoder(os.Stdout).Encode(map[string]string{
		"claude": claude, "claude_url": messages.URL, "codex": codex, "codex_config": responses.CodexConfig(),
	})
	if err != nil {
		log.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}
