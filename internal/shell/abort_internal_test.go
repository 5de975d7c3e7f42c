package shell

import (
	"slices"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/internal/process"
)

// TestReceiptNamesAProcessOnce: a process that two ladders have signalled is listed once, with the
// stronger signal.
func TestReceiptNamesAProcessOnce(t *testing.T) {
	r := &run{}
	r.noteKilled([]process.Killed{{PID: 7, Command: "sleep 1", Signal: syscall.SIGTERM}, {PID: 8, Command: "sleep 2", Signal: syscall.SIGTERM}})
	r.noteKilled([]process.Killed{{PID: 8, Command: "sleep 2", Signal: syscall.SIGKILL}, {PID: 9, Command: "sleep 3", Signal: syscall.SIGTERM}})
	r.noteKilled([]process.Killed{{PID: 8, Command: "sleep 2", Signal: syscall.SIGTERM}})
	want := []process.Killed{
		{PID: 7, Command: "sleep 1", Signal: syscall.SIGTERM}, {PID: 8, Command: "sleep 2", Signal: syscall.SIGKILL}, {PID: 9, Command: "sleep 3", Signal: syscall.SIGTERM},
	}
	if !slices.Equal(r.oc.Killed, want) {
		t.Errorf("%+v, want %+v", r.oc.Killed, want)
	}
}
