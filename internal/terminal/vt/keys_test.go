package vt

import (
	"strings"
	"testing"
)

// TestKeysAreThoseOfXterm: what xterm.js sends for a key, we send (tests/vt/keys records it). Where it sends nothing, because a page keeps the
// key for itself, there is no reference.
func TestKeysAreThoseOfXterm(t *testing.T) {
	type recorded struct{ Mode, Key, Paste, Sent string }
	keys := 0
	for _, r := range readLines[recorded](t, "testdata/keys.jsonl.gz") {
		term := New(Config{Cols: 80, Rows: 24})
		term.Write([]byte(r.Mode))
		if r.Key == "" {
			if got := string(term.Paste(r.Paste)); got != r.Sent {
				t.Errorf("mode %q: paste %q: %q, want %q", r.Mode, r.Paste, got, r.Sent)
			}
			continue
		}
		keys++
		if got, err := term.Key(r.Key); err != nil || string(got) != r.Sent {
			t.Errorf("mode %q: %s: %q, %v, want %q", r.Mode, r.Key, got, err, r.Sent)
		}
	}
	if keys < 1000 {
		t.Errorf("only %d keys", keys)
	}
}

func TestKeys(t *testing.T) {
	const kitty, allKeys, everything = "\x1b[>1u", "\x1b[>8u", "\x1b[>31u"
	const other1, other2 = "\x1b[>4;1m", "\x1b[>4;2m"
	for _, c := range []struct{ mode, key, want string }{
		// Classic, where a page would keep the key for itself.
		{"", "shift-pageup", "\x1b[5;2~"}, {"", "ctrl-insert", "\x1b[2;5~"}, {"", "ctrl-shift-a", "\x01"}, {"", "ctrl-A", "\x01"}, {"", "ctrl-2", "\x00"},
		{"", "ctrl-space", "\x00"}, {"", "ctrl-@", "\x00"}, {"", "ctrl-\\", "\x1c"}, {"", "ctrl-^", "\x1e"}, {"", "ctrl-/", "\x1f"}, {"", "ctrl-?", "\x7f"},
		{"", "ctrl-_", "\x1f"}, {"", "alt-é", "\x1bé"}, {"", "日", "日"}, {"", "A", "A"}, {"", "shift-a", "A"}, {"", "alt-shift-a", "\x1bA"}, {"", "-", "-"}, {"", "alt--", "\x1b-"},
		{"", "f13", "\x1b[1;2P"}, {"", "f17", "\x1b[15;2~"}, {"", "f24", "\x1b[24;2~"}, {"", "ctrl-f13", "\x1b[1;6P"}, {"", " ", " "}, {"", "SHIFT-Tab", "\x1b[Z"},
		{"", "escape", "\x1b"}, {"", "meta-home", "\x1b[1;9H"}, {"", "alt-ctrl-x", "\x1b\x18"}, {"", "ctrl-alt-x", "\x1b\x18"},

		// kitty's protocol.
		{kitty, "a", "a"}, {kitty, "A", "A"}, {kitty, "é", "é"}, {kitty, "esc", "\x1b[27u"}, {kitty, "enter", "\r"}, {kitty, "tab", "\t"}, {kitty, "backspace", "\x7f"},
		{kitty, "shift-enter", "\x1b[13;2u"}, {kitty, "shift-tab", "\x1b[9;2u"}, {kitty, "ctrl-backspace", "\x1b[127;5u"}, {kitty, "ctrl-c", "\x1b[99;5u"}, {kitty, "ctrl-i", "\x1b[105;5u"},
		{kitty, "ctrl-shift-a", "\x1b[97;6u"}, {kitty, "alt-a", "\x1b[97;3u"}, {kitty, "super-a", "\x1b[97;9u"}, {kitty, "ctrl-space", "\x1b[32;5u"}, {kitty, "ctrl-!", "\x1b[49;6u"},
		{kitty + "\x1b[?1h", "up", "\x1b[A"}, {kitty, "ctrl-up", "\x1b[1;5A"}, {kitty, "f1", "\x1b[P"}, {kitty, "f3", "\x1b[13~"}, {kitty, "shift-f3", "\x1b[13;2~"},
		{kitty, "f5", "\x1b[15~"}, {kitty, "f13", "\x1b[57376u"}, {kitty, "shift-delete", "\x1b[3;2~"}, {kitty, "alt-pageup", "\x1b[5;3~"},
		{allKeys, "a", "\x1b[97u"}, {allKeys, "A", "\x1b[97;2u"}, {allKeys, "enter", "\x1b[13u"}, {allKeys, "space", "\x1b[32u"}, {allKeys, "!", "\x1b[49;2u"},
		{everything, "a", "\x1b[97;;97u"}, {everything, "A", "\x1b[97:65;2;65u"}, {everything, "ctrl-a", "\x1b[97;5u"}, {everything, "ctrl-shift-a", "\x1b[97:65;6u"},
		{kitty + "\x1b[<u", "esc", "\x1b"}, {kitty + "\x1b[?1049h", "esc", "\x1b"},

		// xterm's modifyOtherKeys.
		{other1, "ctrl-a", "\x01"}, {other1, "ctrl-;", "\x1b[27;5;59~"}, {other1, "shift-enter", "\x1b[27;2;13~"}, {other1, "ctrl-tab", "\x1b[27;5;9~"}, {other1, "shift-tab", "\x1b[Z"},
		{other1, "alt-a", "\x1ba"}, {other1, "ctrl-up", "\x1b[1;5A"}, {other1, "esc", "\x1b"}, {other1, "alt-enter", "\x1b\r"},
		{other2, "ctrl-a", "\x1b[27;5;97~"}, {other2, "alt-a", "\x1b[27;3;97~"}, {other2, "A", "A"}, {other2, "ctrl-shift-a", "\x1b[27;6;65~"}, {other2, "ctrl-i", "\x1b[27;5;105~"},
		{other2, "enter", "\r"}, {other2, "shift-space", "\x1b[27;2;32~"}, {other2, "ctrl-backspace", "\x1b[27;5;127~"}, {other2, "f5", "\x1b[15~"},
	} {
		term := New(Config{Cols: 80, Rows: 24})
		term.Write([]byte(c.mode))
		if got, err := term.Key(c.key); err != nil || string(got) != c.want {
			t.Errorf("after %q: %s: %q, %v, want %q", c.mode, c.key, got, err, c.want)
		}
	}
}

func TestUnknownKeys(t *testing.T) {
	term := New(Config{Cols: 80, Rows: 24})
	for _, c := range []struct{ key, want string }{
		{"entr", "enter"}, {"pagup", "pageup"}, {"ctrl-delet", "delete"}, {"esk", "esc"}, {"f25", "f2"}, {"back", "backspace"},
		{"", "one character"}, {"ctrl-", "one character"}, {"ab", "did you mean"}, {"xyzzy", "one character"}, {"\x01", "one character"}, {"\xff", "one character"},
		{"ctrl-;", "cannot send it"}, {"super-a", "cannot send it"},
	} {
		_, err := term.Key(c.key)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want it to name %q", c.key, err, c.want)
		}
	}
	for _, name := range KeyNames() {
		for _, prefix := range []string{"", "ctrl-", "ctrl-alt-shift-"} {
			if got, err := term.Key(prefix + name); err != nil || len(got) == 0 {
				t.Errorf("%s%s: %q, %v", prefix, name, got, err)
			}
		}
	}
}

// A name that is too long to be one is refused before anything is made of it, and the error does not repeat it.
func TestLongKeyNames(t *testing.T) {
	term := New(Config{Cols: 80, Rows: 24})
	huge := strings.Repeat("a", 20<<20)
	for _, name := range []string{huge, "enter" + huge, strings.Repeat("ctrl-", 1<<20) + "enter", strings.Repeat("\xff", 1<<20), strings.Repeat("漢", 1<<20)} {
		var err error
		allocations := testing.AllocsPerRun(1, func() { _, err = term.Key(name) })
		if err == nil || len(err.Error()) > 250 || !strings.Contains(err.Error(), "unknown") || strings.Contains(err.Error(), "did you mean") {
			t.Errorf("%.10q with %d bytes: %.300v", name, len(name), err)
		}
		if allocations > 10 {
			t.Errorf("%.10q with %d bytes: %.0f allocations", name, len(name), allocations)
		}
	}
	if longest := "ctrl-alt-shift-super-backspace"; len(longest) > maxKeyName {
		t.Errorf("%s is longer than a name may be", longest)
	} else if _, err := term.Key(longest); err != nil {
		t.Error(err)
	}
}

func TestPasteAndFocus(t *testing.T) {
	term := New(Config{Cols: 80, Rows: 24})
	if got := string(term.Paste("a\nb\r\n")); got != "a\rb\r" {
		t.Errorf("%q", got)
	}
	if term.Focus(true) != nil {
		t.Error("told about the focus without asking")
	}
	term.Write([]byte("\x1b[?2004h\x1b[?1004h"))
	if got, want := string(term.Paste("rm -rf\x1b[20\x1b[201~1~\u009b201~ x")), "\x1b[200~rm -rf x\x1b[201~"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if string(term.Focus(true)) != "\x1b[I" || string(term.Focus(false)) != "\x1b[O" {
		t.Error("focus")
	}
}
