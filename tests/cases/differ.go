package cases

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
)

// differ compares the session with the real shell. For every step the shell is
// started anew and given all commands up to that step as one script: it must
// have printed what the steps printed together, and end as the step ended.
// Stderr is left out: a script names lines that a session does not have.
func (p *play) differ(ctx context.Context, c Case, shell Shell, bad *complaints) {
	var script []string
	var stdout []byte
	for i, step := range c.Steps {
		if step.API != "" || i >= len(p.answers) {
			bad.addf("a differential case has commands only")
			return
		}
		script = append(script, step.CommandText())
		stdout = append(stdout, p.answers[i].stdout...)
		want, exit, err := runScript(ctx, shell, strings.Join(script, "\n"), step.Stdin)
		if err != nil {
			bad.addf("%s: %s", shell.Path, err)
			return
		}
		if !bytes.Equal(want, stdout) {
			bad.addf("after step %d the session has printed %s, the real shell %s", i+1, quote(stdout), quote(want))
			return
		}
		if exit != p.answers[i].exit {
			bad.addf("step %d ended with %d, the real shell with %d", i+1, p.answers[i].exit, exit)
		}
	}
}

// runScript runs a text in the bare shell.
func runScript(ctx context.Context, shell Shell, text string, stdin *string) (stdout []byte, exit int, err error) {
	cmd := exec.CommandContext(ctx, shell.Script[0], append(shell.Script[1:len(shell.Script):len(shell.Script)], text)...)
	if stdin != nil {
		cmd.Stdin = strings.NewReader(*stdin)
	}
	stdout, err = cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		if ws, ok := failed.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			// The shell became its last command and died of it.
			return stdout, 128 + int(ws.Signal()), nil
		}
		return stdout, failed.ExitCode(), nil
	}
	return stdout, 0, err
}
