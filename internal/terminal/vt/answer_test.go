package vt

import (
	"strings"
	"testing"
)

func TestAnswers(t *testing.T) {
	const esc = "\x1b"
	for _, c := range []struct{ name, ask, want string }{
		{"DA1", "[c", "[?1;2c"},
		{"DA1 with 0", "[0c", "[?1;2c"},
		{"DA1, another", "[1c", ""},
		{"DECID", "Z", "[?1;2c"},
		{"DA2", "[>c", "[>0;276;0c"},
		{"status", "[5n", "[0n"},
		{"cursor", "[3;5H" + esc + "[6n", "[3;5R"},
		{"cursor, DEC", "[3;5H" + esc + "[?6n", "[?3;5R"},
		{"cursor in origin mode", "[2;4r" + esc + "[?6h" + esc + "[2;1H" + esc + "[6n", "[3;1R"},
		{"dark or light", "[?996n", "[?997;1n"},
		{"mode that is off", "[?2004$p", "[?2004;2$y"},
		{"mode that is on", "[?2004h" + esc + "[?2004$p", "[?2004;1$y"},
		{"wraparound", "[?7$p", "[?7;1$y"},
		{"batches", "[?2026$p", "[?2026;2$y"},
		{"colour scheme", "[?2031h" + esc + "[?2031$p", "[?2031;1$y"},
		{"mouse", "[?1002h" + esc + "[?1002$p" + esc + "[?1000$p", "[?1002;1$y" + esc + "[?1000;2$y"},
		{"mouse encoding", "[?1006h" + esc + "[?1006$p", "[?1006;1$y"},
		{"alternate screen", "[?1049h" + esc + "[?1049$p", "[?1049;1$y"},
		{"unknown mode", "[?9999$p", "[?9999;0$y"},
		{"ANSI mode", "[4h" + esc + "[4$p" + esc + "[20$p", "[4;1$y" + esc + "[20;2$y"},
		{"XTVERSION", "[>q", "P>|TRL(1.2.3)" + esc + `\`},
		{"foreground", "]10;?\a", "]10;rgb:e5e5/e5e5/e5e5" + esc + `\`},
		{"background", "]11;?" + esc + `\`, "]11;rgb:0000/0000/0000" + esc + `\`},
		{"cursor colour", "]12;?\a", "]12;rgb:e5e5/e5e5/e5e5" + esc + `\`},
		{"foreground and background", "]10;?;?\a", "]10;rgb:e5e5/e5e5/e5e5" + esc + `\` + esc + "]11;rgb:0000/0000/0000" + esc + `\`},
		{"palette", "]4;1;?;231;?;255;?\a", "]4;1;rgb:cdcd/0000/0000" + esc + `\` + esc + "]4;231;rgb:ffff/ffff/ffff" + esc + `\` + esc + "]4;255;rgb:eeee/eeee/eeee" + esc + `\`},
		{"palette, changed", "]4;1;#102030\a" + esc + "]4;1;?\a", "]4;1;rgb:1010/2020/3030" + esc + `\`},
		{"palette, reset", "]4;1;#102030\a" + esc + "]104;1\a" + esc + "]4;1;?\a", "]4;1;rgb:cdcd/0000/0000" + esc + `\`},
		{"background, changed", "]11;rgb:1/2/3\a" + esc + "]11;?\a", "]11;rgb:1111/2222/3333" + esc + `\`},
		{"background, reset", "]11;rgb:1/2/3\a" + esc + "]111\a" + esc + "]11;?\a", "]11;rgb:0000/0000/0000" + esc + `\`},
		{"SGR", "[1;4:3;31;48;5;200;58:2::1:2:3m" + esc + "P$qm" + esc + `\`, "P1$r0;1;4:3;31;48:5:200;58:2::1:2:3m" + esc + `\`},
		{"SGR, bright", "[97;100m" + esc + "P$qm" + esc + `\`, "P1$r0;97;100m" + esc + `\`},
		{"region", "[2;4r" + esc + "P$qr" + esc + `\`, "P1$r2;4r" + esc + `\`},
		{"cursor style", "[5 q" + esc + "P$q q" + esc + `\`, "P1$r5 q" + esc + `\`},
		{"protection", "[1\"q" + esc + `P$q"q` + esc + `\`, `P1$r1"q` + esc + `\`},
		{"level", `P$q"p` + esc + `\`, `P1$r61;1"p` + esc + `\`},
		{"unknown setting", "P$qz" + esc + `\`, "P0$r" + esc + `\`},
		{"XTGETTCAP", "P+q544e" + esc + `\`, "P1+r544E=787465726D2D323536636F6C6F72" + esc + `\`},
		{"XTGETTCAP of two", "P+q436f;524742" + esc + `\`, "P1+r436F=323536;524742=382F382F38" + esc + `\`},
		{"XTGETTCAP, unknown", "P+q4142" + esc + `\`, "P0+r" + esc + `\`},
		{"keyboard", "[?u", "[?0u"},
		{"keyboard, pushed", "[>5u" + esc + "[?u", "[?5u"},
		{"modifyOtherKeys", "[>4;2m" + esc + "[?4m", "[>4;2m"},
		{"pixels", "[14t", "[4;80;160t"},
		{"pixels of a cell", "[16t", "[6;16;8t"},
		{"cells", "[18t", "[8;5;20t"},
		{"title: never told", "]2;secret\a" + esc + "[21t", ""},
		{"clipboard: never told", "]52;c;?\a", ""},
	} {
		term := New(Config{Cols: 20, Rows: 5, Version: "1.2.3"})
		term.Write([]byte(esc + c.ask))
		want := c.want
		if want != "" {
			want = esc + want
		}
		if got := string(term.Replies()); got != want {
			t.Errorf("%s: %q, want %q", c.name, got, want)
		}
		if rest := term.Replies(); len(rest) > 0 {
			t.Errorf("%s: said again: %q", c.name, rest)
		}
	}
}

// A program that asks and never reads gets the oldest answers, and no more than fit.
func TestAnswersAreBounded(t *testing.T) {
	term := New(Config{Cols: 20, Rows: 5})
	term.Write([]byte("\x1b[5n" + strings.Repeat("\x1b[c", 100_000)))
	got := term.Replies()
	if len(got) > maxReplies || len(got) < maxReplies/2 {
		t.Errorf("%d bytes of answers", len(got))
	}
	if !strings.HasPrefix(string(got), "\x1b[0n\x1b[?1;2c") || !strings.HasSuffix(string(got), "\x1b[?1;2c") {
		t.Errorf("answers begin with %q and end with %q", got[:12], got[len(got)-12:])
	}
	term.Write([]byte("\x1b[5n"))
	if got := string(term.Replies()); got != "\x1b[0n" {
		t.Errorf("after they were taken: %q", got)
	}
}
