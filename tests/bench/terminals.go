package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
)

// terminals measures the model of a screen, and terminals through the daemon: keys and
// their echo, the first prompt, a flood, an idle one. The floor of these is a
// pseudo-terminal whose only reader is this process.
func (b *bench) terminals() error {
	for _, measure := range []func() error{b.screen, b.echoes, b.prompts, b.floods} {
		if err := measure(); err != nil {
			return err
		}
	}
	s := b.shells[0]
	_, err := b.idle(idleSessions{
		name: "idle terminal", program: "the program (" + s.name + ")",
		params: promptParams(s),
		use: func(w *wire, id string) error {
			return w.call("session.wait", object{"session_id": id, "text": strings.TrimSpace(prompt)}, nil)
		},
	})
	return err
}

// echoes measures the time from a key to what it makes the terminal show.
func (b *bench) echoes() error {
	for _, by := range []struct{ name, program string }{
		{"by the terminal", "echo ready; exec cat"},
		{"by a program", "stty raw -echo; echo ready; exec cat"},
	} {
		ours, floor, err := b.echo([]string{"/bin/sh", "-c", by.program})
		if err != nil {
			return fmt.Errorf("echo %s: %w", by.name, err)
		}
		b.report.latency("a key's echo "+by.name+"; floor: PTY", ours, floor, 0, 0)
	}
	return nil
}

// echo types into a terminal and into a bare one by turns. It types with one connection
// and looks with another, as a viewer whose answers are not what it waits for.
func (b *bench) echo(command []string) (ours, floor samples, err error) {
	bare, err := startPTY(command)
	if err != nil {
		return nil, nil, err
	}
	defer bare.stop()
	id, err := b.conn.create(object{"kind": "terminal", "command": command})
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = b.conn.destroy(id) }()
	if err := bare.until("ready"); err != nil {
		return nil, nil, err
	}
	if err := b.conn.call("session.wait", object{"session_id": id, "text": "ready"}, nil); err != nil {
		return nil, nil, err
	}
	viewer, err := dial(b.daemon.socket)
	if err != nil {
		return nil, nil, err
	}
	defer viewer.close()
	if err := viewer.attach(id); err != nil {
		return nil, nil, err
	}
	key, err := request("session.input", object{"session_id": id, "text": "x"})
	if err != nil {
		return nil, nil, err
	}
	// A line that a terminal edits has room for 4,095 keys.
	const rounds, keys = 20, 100
	for range rounds {
		for range keys {
			began := time.Now()
			if err := b.conn.send(key); err != nil {
				return nil, nil, err
			}
			if err := viewer.push(`"data":"x"`, api.EventOutput); err != nil {
				return nil, nil, err
			}
			ours = append(ours, time.Since(began))
			line, err := b.conn.line()
			if err == nil {
				err = decode("session.input", line, nil)
			}
			if err != nil {
				return nil, nil, err
			}
		}
		more, err := sample(keys, func() error {
			if _, err := bare.Write([]byte("x")); err != nil {
				return err
			}
			return bare.until("x")
		})
		if err != nil {
			return nil, nil, err
		}
		floor = append(floor, more...)
	}
	return ours, floor, nil
}

// attach makes the connection that of a viewer, up to its first snapshot.
func (w *wire) attach(id string) error {
	if err := w.call("session.attach", object{"session_id": id}, nil); err != nil {
		return err
	}
	return w.push("", api.EventSnapshot)
}

// push reads pushes until one of these types has text in it.
func (w *wire) push(text string, types ...string) error {
	for {
		line, err := w.line()
		if err != nil {
			return err
		}
		var head struct{ Type string }
		if err := json.Unmarshal(line, &head); err != nil {
			return err
		}
		switch {
		case head.Type == api.EventExit || head.Type == api.EventError:
			return fmt.Errorf("waiting for %q: %s", text, line)
		case slices.Contains(types, head.Type) && bytes.Contains(line, []byte(text)):
			return nil
		}
	}
}

// prompt is the prompt of the shells below.
const prompt = "at your service: "

func promptParams(s shell) object {
	return object{"kind": "terminal", "command": append([]string{s.path}, s.bare...), "env": object{"PS1": prompt}, "working_dir": "/"}
}

// prompts measures how long it takes until a new terminal shows the prompt of its shell.
func (b *bench) prompts() error {
	for _, s := range b.shells {
		if s.bare == nil {
			continue
		}
		var ours, floor samples
		for begin := time.Now(); len(ours) < 40 && (len(ours) < 5 || time.Since(begin) < 5*time.Second); {
			took, err := b.firstPrompt(s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			ours = append(ours, took)
			bare, err := sample(1, func() error {
				p, err := startPTY(append([]string{s.path}, s.bare...), "PS1="+prompt)
				if err != nil {
					return err
				}
				defer p.stop()
				return p.until(prompt)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			floor = append(floor, bare...)
		}
		b.report.latency(s.name+": to the first prompt; floor: PTY", ours, floor, 0, 0)
	}
	return nil
}

// firstPrompt attaches as a viewer, which gets output at once; session.wait looks at the screen
// only now and then.
func (b *bench) firstPrompt(s shell) (time.Duration, error) {
	viewer, err := dial(b.daemon.socket)
	if err != nil {
		return 0, err
	}
	defer viewer.close()
	began := time.Now()
	id, err := viewer.create(promptParams(s))
	if err != nil {
		return 0, err
	}
	defer func() { _ = b.conn.destroy(id) }()
	if err := viewer.call("session.attach", object{"session_id": id}, nil); err != nil {
		return 0, err
	}
	err = viewer.push(prompt, api.EventSnapshot, api.EventOutput)
	return time.Since(began), err
}

// floods measures a program that writes as fast as it can, into screen and log, and one in
// a bare terminal by turns.
func (b *bench) floods() error {
	const lines = 4_000_000
	var digits int64
	for first := int64(1); first <= lines; first *= 10 {
		digits += lines - first + 1
	}
	line := "\x1b[1msome/file.go:12:\x1b[0m \x1b[31merror:\x1b[0m something is not what it should be"
	const errors = 400_000
	for _, f := range []struct {
		name, program string
		size          int64 // with a carriage return in each line, as terminals get it
	}{
		{"seq", fmt.Sprintf("exec seq 1 %d", lines), digits + 2*lines},
		{"coloured lines", fmt.Sprintf("yes '%s' | head -n %d", line, errors), errors * int64(len(line)+2)},
	} {
		command := []string{"/bin/sh", "-c", "read start; " + f.program}
		var ours, floor samples
		for range 5 {
			bare, err := ptyFlood(command, f.size)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			took, err := b.flood(command, f.size)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			ours, floor = append(ours, took), append(floor, bare)
		}
		name := fmt.Sprintf("%d MB of %s; floor: PTY", f.size/1e6, f.name)
		b.report.rate(name, f.size, time.Duration(ours.at(50)*1e6), float64(f.size)/floor.at(50)*1e3, 0)
	}
	return nil
}

// flood is how long a program takes from the enter key to its end.
func (b *bench) flood(command []string, size int64) (time.Duration, error) {
	id, err := b.conn.create(object{"kind": "terminal", "command": command})
	if err != nil {
		return 0, err
	}
	defer func() { _ = b.conn.destroy(id) }()
	var info struct {
		ExecID      string `json:"exec_id"`
		StdoutBytes int64  `json:"stdout_bytes"`
	}
	if err := b.conn.call("session.info", object{"session_id": id}, &info); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := b.conn.call("session.input", object{"session_id": id, "keys": []string{"enter"}}, nil); err != nil {
		return 0, err
	}
	if err := b.conn.call("session.wait", object{"session_id": id, "exit": true}, nil); err != nil {
		return 0, err
	}
	took := time.Since(began)
	err = b.conn.call("exec.info", object{"exec_id": info.ExecID}, &info)
	if want := size + int64(len(echoedEnter)); err == nil && info.StdoutBytes != want {
		err = fmt.Errorf("the log has %d of %d bytes", info.StdoutBytes, want)
	}
	return took, err
}

// echoedEnter is what a terminal shows of the enter key.
const echoedEnter = "\r\n"

// ptyFlood is the same with a bare terminal.
func ptyFlood(command []string, size int64) (time.Duration, error) {
	p, err := startPTY(command)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	began := time.Now()
	if _, err := p.Write([]byte("\r")); err != nil {
		return 0, err
	}
	err = p.drain(size + int64(len(echoedEnter)))
	return time.Since(began), err
}
