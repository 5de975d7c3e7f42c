package cli

import (
	"slices"
	"testing"
)

func TestSecondsFlag(t *testing.T) {
	for in, want := range map[string]float64{"30": 30, "1.5": 1.5, "90s": 90, "2m": 120, "0": 0, "250ms": 0.25} {
		var f secondsFlag
		if err := f.Set(in); err != nil || *f.s != want {
			t.Errorf("Set(%q): %v, %v, want %v", in, f.s, err, want)
		}
	}
	for _, in := range []string{"", "soon", "-1", "-1s", "1 m", "NaN", "inf"} {
		var f secondsFlag
		if err := f.Set(in); err == nil {
			t.Errorf("Set(%q): no error, %v", in, *f.s)
		}
	}
}

func TestEnvFlag(t *testing.T) {
	t.Setenv("TRLCLI_HERE", "from here")
	var f envFlag
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

func TestCallerEnvLeavesOutWhatCannotTravel(t *testing.T) {
	t.Setenv("TRLCLI_OK", "yes")
	t.Setenv("BASH_FUNC_f%%", "() { :; }")
	t.Setenv("TRLCLI_BYTES", "\xff\xfe")
	t.Setenv("TRL_SESSION_ID", "s-0123456789")
	t.Setenv("PWD", "/")
	env := callerEnv()
	if env["TRLCLI_OK"] != "yes" {
		t.Error("TRLCLI_OK is missing")
	}
	for _, key := range []string{"BASH_FUNC_f%%", "TRLCLI_BYTES", "TRL_SESSION_ID", "PWD"} {
		if _, ok := env[key]; ok {
			t.Errorf("%s is there", key)
		}
	}
}

func TestDaemonEnvIsNobodysInParticular(t *testing.T) {
	got := daemonEnv([]string{"HOME=/h", "PATH=/bin", "LC_ALL=C", "XDG_RUNTIME_DIR=/r", "TRL_SOCKET_PATH=/s",
		"AWS_SECRET_ACCESS_KEY=x", "FOO=bar", "TRL_SESSION_ID=s-0123456789", "HOMEY=1"})
	want := []string{"HOME=/h", "PATH=/bin", "LC_ALL=C", "XDG_RUNTIME_DIR=/r", "TRL_SOCKET_PATH=/s"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
