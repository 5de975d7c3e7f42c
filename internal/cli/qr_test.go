package cli

import (
	"strings"
	"testing"

	"rsc.io/qr"
)

// The drawn modules are those of the code, with a light zone of four around them.
func TestQRLines(t *testing.T) {
	const address = "https://192.0.2.7:7330/#/login/c-0123456789abcdef0123456789abcdef?to=%2Fs%2Fs-81d0b7e6f4"
	want, err := qr.Encode(address, qr.L)
	if err != nil {
		t.Fatal(err)
	}
	for _, colour := range []bool{false, true} {
		lines, err := qrLines(address, colour)
		if err != nil {
			t.Fatal(err)
		}
		if n := (want.Size + 2*quietZone + 1) / 2; len(lines) != n {
			t.Fatalf("%d lines, want %d", len(lines), n)
		}
		dark := 0
		for i, line := range lines {
			if colour {
				var begun, ended bool
				line, begun = strings.CutPrefix(line, "\x1b[38;5;16;48;5;231m")
				line, ended = strings.CutSuffix(line, "\x1b[0m")
				if !begun || !ended {
					t.Fatalf("line %d does not set and end its colours: %q", i, line)
				}
			}
			row := []rune(line)
			if len(row) != want.Size+2*quietZone {
				t.Fatalf("line %d has %d modules, want %d", i, len(row), want.Size+2*quietZone)
			}
			for j, r := range row {
				x, y := j-quietZone, 2*i-quietZone
				for k, is := range []bool{r == '█' || r == '▀', r == '█' || r == '▄'} {
					inside := x >= 0 && x < want.Size && y+k >= 0 && y+k < want.Size
					if is != (inside && want.Black(x, y+k)) {
						t.Fatalf("module %d,%d is dark: %t", x, y+k, is)
					}
					if is {
						dark++
					}
				}
			}
		}
		if dark < want.Size*want.Size/4 {
			t.Errorf("only %d modules are dark", dark)
		}
	}
}

func TestPhoneHost(t *testing.T) {
	own := func() (string, error) { return "192.0.2.7", nil }
	for base, want := range map[string]string{
		"https://box.example:7330":  "box.example:7330",
		"https://[2001:db8::1]:443": "[2001:db8::1]:443",
		"http://0.0.0.0:7330":       "192.0.2.7:7330",
		"https://[::]:7330":         "192.0.2.7:7330",
	} {
		if got, err := phoneHost(base, own); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", base, got, err, want)
		}
	}
	for base, why := range map[string]string{
		"":                      "HTTP is off",
		"http://127.0.0.1:7330": "127.0.0.1:7330, which is this machine alone",
		"https://[::1]:7330":    "[::1]:7330, which is this machine alone",
		"http://localhost:7330": "this machine alone",
	} {
		if got, err := phoneHost(base, own); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %q, %v; want an error with %q", base, got, err, why)
		}
	}
}
