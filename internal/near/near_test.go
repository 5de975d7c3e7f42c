package near_test

import (
	"testing"

	"github.com/trl-dev/trl/internal/near"
)

func TestWord(t *testing.T) {
	words := []string{"command", "session", "timeout_s", "working_dir", "env"}
	for _, tt := range []struct {
		word  string
		limit int
		want  string
	}{
		{"comand", 2, "command"},
		{"command", 2, "command"},
		{"tiemout_s", 1, "timeout_s"}, // swapped letters are one mistake
		{"timeout", 3, "timeout_s"},
		{"session_id", 3, "session"},
		{"session_id", 2, ""},
		{"", 2, ""},
		{"", 3, "env"},
		{"something else entirely", 3, ""},
	} {
		if got := near.Word(tt.word, words, tt.limit); got != tt.want {
			t.Errorf("%q within %d: %q, want %q", tt.word, tt.limit, got, tt.want)
		}
	}
}
