package soak_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

func (w *worker) fish() bool { return strings.HasSuffix(w.shell, "fish") }

// self names the shell's own process.
func (w *worker) self() string {
	if w.fish() {
		return "$fish_pid"
	}
	return "$$"
}

// loop is a loop of builtins.
func (w *worker) loop() string {
	if w.fish() {
		return "while true; end"
	}
	return "while :; do :; done"
}

// expect runs a command and compares.
func (w *worker) expect(command string, timeout float64, stdout string, exit int) error {
	r, err := w.run(command, timeout)
	if err == nil && (r.Stdout != stdout || r.ExitCode != exit) {
		err = fmt.Errorf("%q: stdout %q, stderr %q, exit_code %d", command, r.Stdout, r.Stderr, r.ExitCode)
	}
	return err
}

func (w *worker) flood() error {
	r, err := w.run("head -c 3000000 /dev/zero", 0)
	if err == nil && (r.StdoutBytes != 3000000 || !r.StdoutTruncated) {
		err = fmt.Errorf("stdout_bytes %d, stdout_truncated %t", r.StdoutBytes, r.StdoutTruncated)
	}
	return err
}

// begin starts a command over a connection of its own and returns when it has
// said that it is up.
func (w *worker) begin(c *client.Client, detach bool) (api.Stream, error) {
	stream, err := c.ExecStream(context.Background(), api.ExecStreamParams{ExecParams: api.ExecParams{
		SessionID: w.session, Command: "echo up; sleep 77", Wait: true, Detach: &detach,
	}})
	if err != nil {
		return nil, err
	}
	event, err := stream.Recv()
	if err == nil && event.Data != "up\n" {
		err = fmt.Errorf("instead of up: %+v", event)
	}
	return stream, err
}

func (w *worker) cancel() error {
	stream, err := w.begin(w.client, true)
	if err != nil {
		return err
	}
	defer stream.Close()
	if _, err := w.client.ExecCancel(context.Background(), api.ExecCancelParams{ExecID: stream.Start().ExecID}); err != nil {
		return err
	}
	for {
		event, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return errors.New("the stream ended without an exit")
		case err != nil:
			return err
		case event.Type == api.EventExit && !event.Cancelled:
			return fmt.Errorf("not cancelled: %+v", *event.ExecOutcome)
		case event.Type == api.EventExit:
			return nil
		}
	}
}

// disconnect goes away in the middle of a command, which is then cancelled: the
// session gets free again by itself.
func (w *worker) disconnect() error {
	c, err := client.Dial(context.Background(), w.daemon.Socket)
	if err != nil {
		return err
	}
	_, err = w.begin(c, false)
	c.Close()
	if err != nil {
		return err
	}
	return w.expect("echo free", 0, "free\n", 0)
}

// destroyBusy ends the session under a running command and makes another one.
func (w *worker) destroyBusy() error {
	stream, err := w.begin(w.client, true)
	if err != nil {
		return err
	}
	defer stream.Close()
	destroy(w.t, w.client, w.session)
	w.open()
	return nil
}
