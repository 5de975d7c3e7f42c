package attach_test

import (
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/terminal/vt"
	"github.com/trl-dev/trl/tests/trltest"
)

// TestChatOfThePage: a person who types what docs/dialogues.md shows sees what it shows.
func TestChatOfThePage(t *testing.T) {
	t.Parallel()
	shown := strings.TrimSpace(trltest.OneSnippet(t, "docs/dialogues.md", "## From the command line", "text"))
	const message, instead = "make the tests pass", "use make clean"
	script := "exit-tool 1 12 make test; ask Bash rm -rf build" // for the fake agent
	want := strings.NewReplacer(message, script, "Remove the build directory", "Do rm -rf build").Replace(shown)
	if !strings.HasPrefix(want, "> "+script+"\n") || !strings.HasSuffix(want, instead) {
		t.Fatalf("the page shows another conversation:\n%s", shown)
	}
	s := newPlace(t).chats(t)
	s.prompted("> ")
	s.press(script + "\r")
	s.see(`what to do instead:`)
	s.press(instead)
	s.until("the screen is that of the page", func(v *vt.Terminal) bool { return strings.HasSuffix(textOf(v), want) })
	s.press("\r")
	s.prompted("> ")
	s.press("\x04")
	s.left()
	s.clean()
}
