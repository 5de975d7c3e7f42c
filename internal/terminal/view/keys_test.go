package view

import "testing"

func TestDetachKey(t *testing.T) {
	for _, c := range []struct {
		name, in, typed string
		detach          bool
	}{
		{`ctrl-\`, "ab\x1ccd", "ab", true},
		{`ctrl-\`, "ab\rcd", "ab\rcd", false},
		{`ctrl-\`, "x\x1b[92;5uy", "x", true},
		{`ctrl-\`, "\x1b[92;5:1u", "", true},
		{`ctrl-\`, "\x1b[92:124;69u", "", true},           // with an alternate key and caps lock
		{`ctrl-\`, "\x1b[92;5:3u", "\x1b[92;5:3u", false}, // its release
		{`ctrl-\`, "\x1b[92;6u", "\x1b[92;6u", false},     // with shift
		{`ctrl-\`, "\x1b[92u\x1b[u", "\x1b[92u\x1b[u", false},
		{`ctrl-\`, "\x1b[27;5;92~", "", true},
		{`ctrl-\`, "\x1b[27;5;93~", "\x1b[27;5;93~", false},
		{`ctrl-\`, "\x1b[200~a\x1cb\x1b[92;5uc\x1b[201~d\x1ce", "\x1b[200~a\x1cb\x1b[92;5uc\x1b[201~d", true},
		{`ctrl-\`, "\x1b", "\x1b", false},
		{`ctrl-\`, "\x1b\x1b[A\x1bOA", "\x1b\x1b[A\x1bOA", false},
		{`ctrl-]`, "a\x1c\x1d", "a\x1c", true},
		{`Ctrl-A`, "\x1b[97;5u", "", true},
		{`^a`, "b\x01", "b", true},
		{`ctrl-@`, "b\x00", "b", true},
		{`none`, "a\x1c\x1b[92;5u\x00", "a\x1c\x1b[92;5u\x00", false},
	} {
		for cut := range len(c.in) + 1 {
			k, err := NewKeys(c.name)
			if err != nil {
				t.Fatal(err)
			}
			typed, detach := k.Scan([]byte(c.in[:cut]))
			got := string(typed)
			if !detach {
				typed, detach = k.Scan([]byte(c.in[cut:]))
				got += string(typed)
			}
			if lone := cut > 0 && cut < len(c.in) && c.in[cut-1] == 0x1b; lone {
				continue // a lone ESC is not held back, and what follows it is none of its
			}
			if got += string(k.Release()); got != c.typed || detach != c.detach {
				t.Errorf("%s, %q cut at %d: %q, %v", c.name, c.in, cut, got, detach)
			}
		}
	}
	for _, name := range []string{"", "x", "ctrl-", "ctrl-m", "ctrl-[", "ctrl-ab", "f1", "ctrl-ä", "alt-x"} {
		if _, err := NewKeys(name); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestKeysHoldBack(t *testing.T) {
	k, _ := NewKeys(`ctrl-\`)
	if typed, _ := k.Scan([]byte("a\x1b[1;")); string(typed) != "a" || !k.Held() {
		t.Errorf("%q, held %v", typed, k.Held())
	}
	if held := k.Release(); string(held) != "\x1b[1;" || k.Held() {
		t.Errorf("%q", held)
	}
	long := "\x1b["
	for range maxHeld {
		long += "1;"
	}
	if typed, _ := k.Scan([]byte(long)); string(typed) != long || k.Held() {
		t.Errorf("%q", typed)
	}
}
