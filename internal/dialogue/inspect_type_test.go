package dialogue

import "testing"

func TestTypeOf(t *testing.T) {
	for line, want := range map[string]string{
		`{"type":"assistant","message":{"type":"message"}}`:   "assistant",
		`{"message":{"type":"message"},"type":"assistant"}`:   "assistant",
		`{"jsonrpc":"2.0","id":1,"method":"session/prompt"}`:  "session/prompt",
		`{"method":"m","type":"t"}`:                           "t",
		`{"type":7,"method":"m"}`:                             "m",
		`{"type":"result","text":"the end of the line is mis`: "result",
		`{"text":"x"}`:      "",
		`["type"]`:          "",
		`"type"`:            "",
		`{"type"`:           "",
		`{`:                 "",
		``:                  "",
		`warning: not JSON`: "",
	} {
		if got := typeOf([]byte(line)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
