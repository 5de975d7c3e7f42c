package view

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestFilterTakesOutQuestions: nothing that a terminal answers, or that is not the
// program's to change, reaches it; what stands before and behind does.
func TestFilterTakesOutQuestions(t *testing.T) {
	for _, seq := range []string{
		"\x05", "\x1bZ", "\u009a", // answerback, DECID
		"\x1b[c", "\x1b[0c", "\x1b[>c", "\x1b[>0c", "\x1b[=c", "\u009bc", // DA 1, 2, 3
		"\x1b[5n", "\x1b[6n", "\x1b[?6n", "\x1b[?15n", "\x1b[?996n", // DSR
		"\x1b[?2026$p", "\x1b[4$p", // DECRQM
		"\x1b[>q", "\x1b[>0q", // XTVERSION
		"\x1b[?u", "\x1b[>1u", "\x1b[<u", "\x1b[=5;1u", // kitty keys
		"\x1b[11t", "\x1b[13t", "\x1b[14t", "\x1b[16t", "\x1b[18t", "\x1b[19t", "\x1b[20t", "\x1b[21t", // reports of the window
		"\x1b[8;50;100t", "\x1b[3;1;1t", "\x1b[2t", "\x1b[22;0t", "\x1b[23;0t", // and its changes
		"\x1b[x", "\x1b[1x", "\x1b[1;1;1;1;1;1*y", "\x1b[?4m", "\x1b[?1;1;0S", "\x1b[1$w", "\x1b[#|", "\x1b['|", "\x1b[1;2'z", "\x1b[\"v", "\x1b[&u",
		"\x1b[?2048h", "\x1b[?3h", "\x1b[?69h", "\x1b[?2l", "\x1b[2h", "\x1b[1;2;3;4;5T",
		"\x1bP$qm\x1b\\", "\x1bP+q544e\x1b\\", "\x1bPq#0~~\x1b\\", "\x1b_Gi=1,a=q;AAAA\x1b\\", "\x1b^x\x1b\\", "\x1bXx\x1b\\", "\u0090$qm\u009c",
		"\x1b]4;1;?\x1b\\", "\x1b]4;1;red;2;?\x07", "\x1b]10;?\x07", "\x1b]11;?\x1b\\", "\x1b]12;?\x07", "\x1b]52;c;?\x07", "\x1b]52;;?\x1b\\", "\u009d11;?\u009c",
		"\x1b]0;title\x07", "\x1b]2;title\x1b\\", "\x1b]50;?\x07", "\x1b]60\x07", "\x1b]99;i=1:p=?;\x1b\\", "\x1b]1337;ReportCellSize\x07", "\x1b]777777;x\x07",
		"\x1b G", "\x1b%@", "\x1b#3", "\x1bl", "\x18", "\x1b\\",
	} {
		for cut := range len(seq) + 1 {
			var f Filter
			got := f.Append(f.Append(nil, []byte("a"+seq[:cut])), []byte(seq[cut:]+"b"))
			if string(got) != "ab" {
				t.Errorf("%q cut at %d: %q passes", seq, cut, got)
			}
		}
	}
}

func TestFilterLetsPass(t *testing.T) {
	for _, text := range []string{
		"plain\r\n\ttext\b", "né€𝄞\u00a0", "\x07", "\x0e\x0f", "\x0b\x0c",
		"\x1b[1;31;48:2::1:2:3m", "\x1b[m", "\x1b[H\x1b[2J\x1b[3J", "\x1b[5;10r", "\x1b[?25l", "\x1b[?1049h", "\x1b[?1000;1006h", "\x1b[?2004l", "\x1b[?2026h",
		"\x1b[4 q", "\x1b[0\"q", "\x1b[!p", "\x1b[>4;2m", "\x1b[>4n", "\x1b[3'}", "\x1b[2 @", "\x1b[s\x1b[u", "\x1b[4h", "\x1b[10X", "\x1b[3b", "\x1b[?2J",
		"\x1b7\x1b8\x1b=\x1b>\x1bM\x1bD\x1bE", "\x1b(0\x1b)B", "\x1b#8", "\x1bH\x1b[3g",
		"\x1b]8;id=1;http://x/?a\x1b\\", "\x1b]52;c;aGVsbG8=\x1b\\", "\x1b]4;1;red\x1b\\", "\x1b]104\x1b\\", "\x1b]7;file:///tmp\x1b\\", "\x1b]133;A\x1b\\", "\x1b]9;done\x1b\\",
	} {
		for cut := range len(text) + 1 {
			var f Filter
			if got := f.Append(f.Append(nil, []byte(text[:cut])), []byte(text[cut:])); string(got) != text {
				t.Errorf("%q cut at %d: %q passes", text, cut, got)
			}
		}
	}
	for text, want := range map[string]string{
		"\x1b[?1000;2048;25h":          "\x1b[?1000;25h",
		"\x1b]52;c;QQ==\x07":           "\x1b]52;c;QQ==\x1b\\",
		"\x1b]52;c;QQ==\x1b[1mx":       "\x1b]52;c;QQ==\x1b\\\x1b[1mx", // any ESC ends it
		"\x1b]52;c;QQ==\x18x":          "x",
		"\x1b[1\x1b[2mx":               "\x1b[2mx",
		"\x1b[1\r;2mx":                 "\r\x1b[1;2mx",
		"\u009b1mx\u0085\u008d":        "\x1b[1mx\x1bE\x1bM",
		"a\xffb\xe2\x82c\x9b5n\ufeffd": "abc5nd",
		"\x1b[1éx":                     "x",
		"\x1bktitle\x1b\\":             "title",
		"\x1bcx":                       reset + "x",
		"\x1b]8;;" + strings.Repeat("x", maxSequence) + "\x07y": "y",
	} {
		var f Filter
		if got := f.Append(nil, []byte(text)); string(got) != want {
			t.Errorf("%.60q: %.60q passes, want %.60q", text, got, want)
		}
	}
}

func TestFilterKeepsEffectsOnly(t *testing.T) {
	f := Filter{Effects: true}
	got := f.Append(nil, []byte("text\x1b[1m\x07\x1b]52;c;QQ==\x07\x1b]8;;x\x07\x1b]777;notify;a;b\x07\x1bc\x1b7é\x1b]52;c;?\x07"))
	if want := "\x07\x1b]52;c;QQ==\x1b\\\x1b]777;notify;a;b\x1b\\"; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	f = Filter{Spare: true}
	if got := f.Append(nil, []byte("\x1b[2J\x1b[3J\x1b[J")); string(got) != "\x1b[2J\x1b[J" {
		t.Errorf("%q", got)
	}
}

// Any input, in any pieces, gives the same output, which is UTF-8 and passes the filter unchanged.
func FuzzFilter(f *testing.F) {
	f.Add([]byte("a\x1b[1mb\x1b]52;c;QQ==\x07\x1bP$qm\x1b\\\xff\u009b6n\x1b[?1;2048hé"), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, piece uint8) {
		var whole, cut Filter
		want := whole.Append(nil, data)
		var got []byte
		for rest := data; len(rest) > 0; {
			n := min(len(rest), int(piece)+1)
			got = cut.Append(got, rest[:n])
			rest = rest[n:]
		}
		if !bytes.Equal(got, want) {
			t.Errorf("in pieces %q, whole %q", got, want)
		}
		if !utf8.Valid(got) {
			t.Errorf("%q", got)
		}
		var again Filter
		if twice := again.Append(nil, want); !bytes.Equal(twice, want) && !bytes.Contains(want, []byte(reset)) {
			t.Errorf("%q passes as %q", want, twice)
		}
	})
}
