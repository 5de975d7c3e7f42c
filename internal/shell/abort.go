package shell

import (
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/trl-dev/trl/internal/process"
)

const (
	// A signal makes the shell drop its input, and a ping with it. So pings are repeated
	// separately from signals.
	pingEvery      = 100 * time.Millisecond
	pingAfter      = 2 * time.Millisecond // from the first signal to the first ping
	interruptEvery = 200 * time.Millisecond
	scanEvery      = 10 * time.Millisecond // between two searches for processes of the command
	// lastChance follows the grace time. Then a shell that has not answered is killed.
	lastChance = 2 * time.Second
)

// abort ends the command: it interrupts the shell, ends all processes of the command with
// ladders of signals, and waits until the shell has answered a ping and so is idle. It spares
// the jobs of earlier commands, and the shell unless that cannot be interrupted: then the shell
// is killed and replaced.
func (r *run) abort() {
	s := r.Shell
	first := r.oc.Signal
	below := process.NewLadder(s.proc.PID, first, r.cmd.Grace, r.isEarlier)
	orphans := process.NewLadder(os.Getpid(), first, r.cmd.Grace, r.notOurs)
	orphans.Search(r.strays)
	defer func() {
		below.Close()
		orphans.Close()
	}()
	step := func() int { return below.Step() + orphans.Step() }
	if first == syscall.SIGKILL {
		below.Force()
		orphans.Force()
	}
	begun := time.Now()
	shellInfo, _ := process.Stat(s.proc.PID)
	shellCommand := process.CommandLine(s.proc.PID)
	if shellInfo.PID != 0 && shellInfo.Name != s.name {
		orphans.Add(shellInfo) // the command has replaced the shell with exec
	}
	in := &interrupter{shell: s}
	in.interrupt()
	step()
	s.waitUntil(time.Now().Add(pingAfter), r.streams[:])
	in.ping()
	idle := false
	for nextPing, nextSignal := begun.Add(pingEvery), begun.Add(interruptEvery); !idle && !s.dead(); {
		s.wait(time.Now().Add(scanEvery), r.streams[0], r.streams[1])
		idle = in.answered()
		left := step()
		now := time.Now()
		switch {
		case idle || s.dead():
		case now.Sub(begun) > r.cmd.Grace+lastChance, left == 0 && s.stuck():
			s.proc.Signal(syscall.SIGKILL)
		case now.After(nextPing):
			// While processes of the command are still ending, the shell may be waiting for
			// one of them; more interrupts would not help then.
			if now.After(nextSignal) && (left == 0 || in.sent < 3) {
				in.interrupt()
				nextSignal = now.Add(interruptEvery)
				s.waitUntil(time.Now().Add(5*time.Millisecond), r.streams[:])
			}
			in.ping()
			nextPing = now.Add(pingEvery)
		}
		select { // a second Abort with SIGKILL skips the grace time
		case sig := <-r.cmd.Abort:
			if sig == syscall.SIGKILL {
				below.Force()
				orphans.Force()
			}
		default:
		}
	}
	// No signal is sent from here on, so the answer to one more ping proves that the shell is
	// idle.
	for !s.dead() {
		if s.bookkeepPing(time.Now().Add(pingEvery)) {
			break
		}
		if time.Since(begun) > r.cmd.Grace+2*lastChance {
			s.proc.Signal(syscall.SIGKILL)
			<-s.proc.Done()
		}
	}
	if s.dead() {
		first, ended := r.oc.Signal, s.proc.Exit().Signal
		r.shellDied()
		r.oc.Signal = first
		if !killedPID(orphans.Killed(), shellInfo.PID) && ended != 0 {
			r.oc.Killed = append(r.oc.Killed, process.Killed{PID: shellInfo.PID, Command: shellCommand, Signal: ended})
		}
		// The processes that the shell had started are descendants of this process now.
		r.noteKilled(below.Killed())
		below.Close()
		below = process.NewLadder(os.Getpid(), syscall.SIGKILL, 0, r.notOurs)
		below.Search(r.strays)
	}
	working := func(l *process.Ladder) bool { return l.Step() > 0 && !l.GivenUp() }
	for working(below) || working(orphans) {
		s.waitUntil(time.Now().Add(scanEvery), r.streams[:])
	}
	r.noteKilled(below.Killed())
	r.noteKilled(orphans.Killed())
	for i, k := range r.oc.Killed {
		if k.Command == s.args && k.Name != "" && k.Name != s.name {
			r.oc.Killed[i].Command = k.Name // a fork without exec had the command line of the shell
		}
		if k.Signal == syscall.SIGKILL {
			r.oc.Signal = syscall.SIGKILL
		}
	}
	in.clean()
}

// noteKilled adds processes to the receipt. Both ladders may have signalled a process: one whose
// parent ends leaves the tree of the shell, and this process adopts it.
func (r *run) noteKilled(list []process.Killed) {
	for _, k := range list {
		i := slices.IndexFunc(r.oc.Killed, func(other process.Killed) bool { return other.PID == k.PID })
		if i < 0 {
			r.oc.Killed = append(r.oc.Killed, k)
		} else if k.Signal == syscall.SIGKILL {
			r.oc.Killed[i].Signal = k.Signal
		}
	}
}

func killedPID(list []process.Killed, pid int) bool {
	for _, k := range list {
		if k.PID == pid {
			return true
		}
	}
	return false
}

// waitUntil calls wait until t.
func (s *Shell) waitUntil(t time.Time, streams []*stream) {
	for time.Now().Before(t) {
		s.wait(t, streams...)
	}
}

// interrupter interrupts the shell's command and finds out whether the shell is idle.
type interrupter struct {
	shell  *Shell
	sent   int      // signals
	tokens []string // of the pings
	files  []string // scripts of the pings
}

// interrupt sends the next signal that interrupts a shell of this family.
func (in *interrupter) interrupt() {
	sigs := in.shell.dialect.interrupts()
	in.shell.proc.Signal(sigs[in.sent%len(sigs)])
	in.shell.proc.Signal(syscall.SIGCONT)
	in.sent++
}

// ping sends a ping that answered recognizes.
func (in *interrupter) ping() {
	token := in.shell.token()
	in.tokens = append(in.tokens, token)
	in.files = append(in.files, in.shell.sendPing(token))
}

// sendPing sends a ping: control text that reports a status with token as soon as the shell
// reads its input again. Every suffix of the line is harmless, because an interrupt can make the
// shell drop its beginning. If it had quotes, one signal in the wrong microsecond would leave
// the shell waiting for a closing quote. sendPing returns the file of the ping's script, "" if
// the ping could not be sent.
func (s *Shell) sendPing(token string) (file string) {
	s.pings++
	file = s.dir.ping(s.pings)
	if writeFile(file, []byte(s.dialect.ping(s.dir, token))) != nil {
		return ""
	}
	ping := s.dialect.source(file)
	switch s.dialect.(type) {
	case fish: // prints no path
	case bash:
		ping = "2>/dev/null " + ping // a DEBUG trap may write to stderr while the script runs
	default:
		ping = mutely + ping
	}
	s.send("\n" + ping + "\n")
	return file
}

// answered reports whether the shell has answered a ping.
func (in *interrupter) answered() bool {
	s := in.shell
	for _, st := range s.statuses {
		for _, token := range in.tokens {
			if st.token == token {
				s.statuses = s.statuses[:0]
				if st.cwd != "" {
					s.cwd = st.cwd
				}
				return true
			}
		}
	}
	s.statuses = s.statuses[:0]
	return false
}

// bookkeepPing sends a ping and reports whether the shell answered it in time.
func (s *Shell) bookkeepPing(deadline time.Time) bool {
	token := s.token()
	defer os.Remove(s.sendPing(token))
	_, err := s.await(token, deadline)
	return err == nil
}

// clean removes the scripts of the pings.
func (in *interrupter) clean() {
	for _, f := range in.files {
		os.Remove(f)
	}
}
