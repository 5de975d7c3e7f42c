package attach_test

import (
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

// TestKilledDaemonWhileAttached: the person stays, types on, and nothing is typed twice.
func TestKilledDaemonWhileAttached(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	a := p.sit(t, 80, 24, p.trl, "new", "-t", "sh")
	a.see(`^\$`)
	for i := range 3 {
		a.press("x=$x.; echo here-$x\r")
		a.see(`^(\$ )?here-` + strings.Repeat(`\.`, i+1) + `$`)
		p.Kill9()
		a.press("x=$x; echo away-" + strings.Repeat("i", i+1) + "\r") // while there is no viewer
		if i == 0 {
			a.see(`trl: the daemon is away; reconnecting…`)
		}
		p.Restart(t)
		a.see(`^(\$ )?away-` + strings.Repeat("i", i+1) + `$`)
	}
	a.until("nothing is said any more", func(s *vt.Terminal) bool { return !strings.Contains(textOf(s), "reconnecting") })
	p.same(t, a, "sh")
	a.resize(90, 20)
	p.follows(t, a)
	a.press("stty size\r")
	a.see(`^(\$ )?20 90$`)
	if n := len(regexp.MustCompile(`(?m)^(\$ )?away-i$`).FindAllString(a.text(), -1)); n != 1 {
		t.Errorf("typed %d times:\n%s", n, a.text())
	}
	a.press("exit 5\r")
	if status := a.left(); status != 5 {
		t.Errorf("status %d", status)
	}
	a.clean()
}

// TestProgramEndsWithoutADaemon: trl attach still returns its exit status.
func TestProgramEndsWithoutADaemon(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	a := p.sit(t, 80, 24, p.trl, "new", "-t", "sh", "--", "sh", "-c", "read x; echo last words; exit 9")
	a.entered()
	pid := p.info(t, "sh").ShellPID
	p.Kill9()
	if err := unix.Kill(pid, unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.Restart(t)
	if status := a.left(); status != 128+int(unix.SIGHUP) {
		t.Errorf("status %d", status)
	}
	a.see(`trl: sh: the program died of SIGHUP`)
	a.clean()
}

// TestSignalsLeaveACleanTerminal: a signal ends trl attach, which resets all modes of the terminal.
func TestSignalsLeaveACleanTerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const everything = `printf '\033[?1049h\033[?1000;1002;1003;1006h\033[?1004h\033[?2004h\033[?1h\033=\033[>4;2m\033[>1u\033[>5u\033[?25l\033[3 q\033(0\033[5;10r\033[?6h\033[?7l\033[4h\033[31;44m\033[3g\033]2;a title\007\033]8;;http://x\033\\armed'; stty raw; cat`
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGINT, 0} {
		name := "none"
		if sig != 0 {
			name = unix.SignalName(sig)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := p.sit(t, 80, 24, p.trl, "new", "-t", name, "--", "sh", "-c", everything)
			a.until("everything is on", func(s *vt.Terminal) bool {
				return s.Alternate() && s.Modes().KittyFlags == 5 && s.Modes().Mouse == "any" && s.Title() == "a title"
			})
			want := 128 + int(sig)
			if sig != 0 {
				if err := unix.Kill(a.cmd.Process.Pid, sig); err != nil {
					t.Fatal(err)
				}
			} else {
				want = 0
				a.press("\x1b[92;5u")
			}
			if status := a.left(); status != want {
				t.Errorf("status %d, want %d", status, want)
			}
			a.clean()
		})
	}
}

// TestLostForGood: without a new daemon, the terminal is clean and the error clear.
func TestLostForGood(t *testing.T) {
	if testing.Short() {
		t.Skip("waits as long as the person would")
	}
	t.Parallel()
	p := newPlace(t)
	a := p.sit(t, 80, 24, p.trl, "new", "-t", "sh", "--no-start")
	a.see(`^\$`)
	p.Kill9()
	a.see(`trl: the daemon is away; reconnecting…`)
	if status := a.left(); status != 125 {
		t.Errorf("status %d", status)
	}
	a.see("trl: sh: daemon at .*")
	a.see("hint: its program keeps running: use `trl attach sh` when a daemon runs")
	a.clean()
}
