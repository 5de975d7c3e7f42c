package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
)

// run runs the command with a report on its stdin. Its output is discarded: neither the report nor
// the output that the command derives from it belongs in the log.
func (h *Hook) run(ctx context.Context, r api.RequestReport) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		in.Close()
		return err
	}
	p, err := h.cfg.Start(process.Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", h.cfg.Command}, Env: environment(), Files: []*os.File{in, null, null}, Setsid: true,
	})
	in.Close()
	null.Close()
	if err != nil {
		return err
	}
	timeout := time.NewTimer(h.cfg.Timeout)
	defer timeout.Stop()
	// The buffer of the pipe may be smaller than the report. A command that does not read its stdin is
	// no fault.
	_ = out.SetWriteDeadline(time.Now().Add(h.cfg.Timeout))
	stop := context.AfterFunc(ctx, func() { out.Close() })
	defer stop()
	_, _ = out.Write(append(text, '\n'))
	out.Close()
	select {
	case <-p.Done():
	case <-timeout.C:
		h.kill(p)
		return fmt.Errorf("on_request_command: did not end within %s and was killed", h.cfg.Timeout)
	case <-ctx.Done():
		h.kill(p)
		return ctx.Err()
	}
	if e := p.Exit(); e.Code() != 0 {
		return fmt.Errorf("on_request_command: exit status %d", e.Code())
	}
	return nil
}

// environment is that of the daemon without its own variables, which may have secrets.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "TRL_") || strings.HasPrefix(v, "OTEL_EXPORTER_")
	})
}

// kill ends the command and the processes of its group, which has its process id.
func (h *Hook) kill(p *process.Process) {
	_ = syscall.Kill(-p.PID, syscall.SIGKILL)
	<-p.Done()
}
