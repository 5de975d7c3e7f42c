package cli_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFollowersOutliveTheDaemon: those that look on go on with the next daemon.
func TestFollowersOutliveTheDaemon(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	fifo := filepath.Join(s.work, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	started := s.run(t, "start", "-s", "a", "--stdin", "echo started; read x; echo got $x; cat fifo; exit 7")
	if started.status != 0 {
		t.Fatalf("%+v", started)
	}
	id := strings.TrimSpace(started.stdout)
	logs := s.startLive(t, "logs", "-f", id)
	wait1 := s.command(s.trl, "wait", id)
	waited, err := wait1.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	events := s.command(s.trl, "events", "-f", "--type", "exec.exited")
	happened, err := events.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := wait1.Start(); err != nil {
		t.Fatal(err)
	}
	if err := events.Start(); err != nil {
		t.Fatal(err)
	}
	vanish(t, s)
	vanish(t, s) // they have started the next one
	if o := s.run(t, "input", id, "word"); o.status != 0 {
		t.Errorf("%+v", o)
	}
	if err := os.WriteFile(fifo, []byte("end\n"), 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"got word\n", "end\n"} {
		if line, _ := logs.stdout.ReadString('\n'); line != want {
			t.Errorf("logs -f: %q, want %q", line, want)
		}
	}
	if status := wait(t, logs.cmd); status != 7 {
		t.Errorf("logs -f: status %d", status)
	}
	if line, _ := bufio.NewReader(waited).ReadString('\n'); line != id+"\texit\t7\n" {
		t.Errorf("wait: %q", line)
	}
	if status := wait(t, wait1); status != 7 {
		t.Errorf("wait: status %d", status)
	}
	if line, _ := bufio.NewReader(happened).ReadString('\n'); !strings.HasSuffix(line, "\texec.exited\ta\t"+id+"\t7\n") {
		t.Errorf("events: %q", line)
	}
	_ = unix.Kill(events.Process.Pid, unix.SIGTERM)
	if status := wait(t, events); status != 143 {
		t.Errorf("events: status %d", status)
	}
}
