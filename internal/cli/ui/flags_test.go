package ui

import (
	"testing"
)

func TestSecondsFlag(t *testing.T) {
	for in, want := range map[string]float64{"30": 30, "1.5": 1.5, "90s": 90, "2m": 120, "0": 0, "250ms": 0.25} {
		var f SecondsFlag
		if err := f.Set(in); err != nil || *f.Value != want {
			t.Errorf("Set(%q): %v, %v, want %v", in, f.Value, err, want)
		}
	}
	for _, in := range []string{"", "soon", "-1", "-1s", "1 m", "NaN", "inf"} {
		var f SecondsFlag
		if err := f.Set(in); err == nil {
			t.Errorf("Set(%q): no error, %v", in, *f.Value)
		}
	}
}

func TestEnvFlag(t *testing.T) {
	t.Setenv("TRLCLI_HERE", "from here")
	var f EnvFlag
	for _, in := range []string{"A=1", "B=", "C=x=y", "TRLCLI_HERE"} {
		if err := f.Set(in); err != nil {
			t.Errorf("Set(%q): %s", in, err)
		}
	}
	for key, want := range map[string]string{"A": "1", "B": "", "C": "x=y", "TRLCLI_HERE": "from here"} {
		if got, ok := f[key]; !ok || got != want {
			t.Errorf("%s = %q, %v, want %q", key, got, ok, want)
		}
	}
	for _, in := range []string{"", "=x", "TRLCLI_NOT_SET"} {
		if err := f.Set(in); err == nil {
			t.Errorf("Set(%q): no error", in)
		}
	}
	if s := f.String(); s != "A,B,C,TRLCLI_HERE" {
		t.Errorf("String() = %q: must show names, and no values", s)
	}
}
