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
			for _, way := range []struct{ encoded, late bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
				k, err := NewKeys(c.name)
				if err != nil {
					t.Fatal(err)
				}
				k.Encoded = way.encoded
				typed, detach := k.Scan([]byte(c.in[:cut]))
				got := string(typed)
				late := 0 // of a sequence whose rest comes too late, the program has the beginning
				if !detach {
					if way.late {
						held := k.Release()
						got, late = got+string(held), len(held)
					}
					if cut > 0 && c.in[cut-1] == 0x1b && !way.encoded {
						late = 1
					}
					typed, detach = k.Scan([]byte(c.in[cut:]))
					got += string(typed)
				}
				want := c.typed
				if c.detach && detach && late > 0 && len(want) < cut {
					want = c.in[:cut]
				}
				if got += string(k.Release()); got != want || detach != c.detach {
					t.Errorf("%s, %q cut at %d, %+v: %q, %v, want %q", c.name, c.in, cut, way, got, detach, want)
				}
			}
		}
	}
	for _, name := range []string{"", "x", "ctrl-", "ctrl-m", "ctrl-[", "ctrl-ab", "f1", "ctrl-ä", "alt-x"} {
		if _, err := NewKeys(name); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

// TestKeyTwice: pressed twice, the key is typed once, in every encoding of the key.
func TestKeyTwice(t *testing.T) {
	for _, c := range []struct {
		in, typed       string
		detach, pressed bool
	}{
		{"ab\x1c", "ab", false, true},
		{"ab\x1ccd", "ab", true, true},
		{"ab\x1c\x1ccd", "ab\x1ccd", false, false},
		{"\x1c\x1c\x1c", "\x1c", false, true},
		{"\x1c\x1c\x1c\x1c", "\x1c\x1c", false, false},
		{"\x1b[92;5u\x1b[92;5:3u\x1b[92;5ux", "\x1b[92;5ux", false, false}, // with its release between
		{"\x1b[92;5:3ux", "\x1b[92;5:3ux", false, false},
		{"\x1b[27;5;92~\x1b[27;5;92~", "\x1b[27;5;92~", false, false},
		{"\x1b[200~\x1c\x1b[201~", "\x1b[200~\x1c\x1b[201~", false, false},
	} {
		for cut := range len(c.in) + 1 {
			if cut > 0 && cut < len(c.in) && c.in[cut-1] == 0x1b {
				continue // a lone ESC is not held back
			}
			k, _ := NewKeys(`ctrl-\`)
			k.Twice()
			typed, detach := k.Scan([]byte(c.in[:cut]))
			got := string(typed)
			if !detach {
				typed, detach = k.Scan([]byte(c.in[cut:]))
				got += string(typed)
			}
			if got != c.typed || detach != c.detach || k.Pressed() != c.pressed {
				t.Errorf("%q cut at %d: %q, %v, pressed %v", c.in, cut, got, detach, k.Pressed())
			}
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
	if typed, detach := k.Scan([]byte("5u\x1b[92")); string(typed) != "5u" || detach || !k.Held() {
		t.Errorf("%q, %v", typed, detach)
	}
	k.Release()
	if typed, detach := k.Scan([]byte(";5ux")); len(typed) > 0 || !detach {
		t.Errorf("a key whose rest came late: %q, %v", typed, detach)
	}
	k, _ = NewKeys(`ctrl-\`)
	if typed, _ := k.Scan([]byte("\x1b")); string(typed) != "\x1b" || k.Held() {
		t.Errorf("the escape key waits: %q", typed)
	}
	k.Encoded = true
	if typed, _ := k.Scan([]byte("a\x1b")); string(typed) != "a" || !k.Held() {
		t.Errorf("%q, held %v", typed, k.Held())
	}
	if held := k.Release(); string(held) != "\x1b" {
		t.Errorf("%q", held)
	}
	k, _ = NewKeys(`ctrl-\`)
	long := "\x1b["
	for range maxHeld {
		long += "1;"
	}
	if typed, _ := k.Scan([]byte(long)); string(typed) != long || k.Held() {
		t.Errorf("%q", typed)
	}
}
