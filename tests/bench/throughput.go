package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// throughput measures how fast a command can write when everything is kept in the log, and when a
// client reads at the same time.
func (b *bench) throughput() error {
	const gigabyte = 1_000_000_000
	s := b.shells[0]
	id, err := b.conn.newSession(s.path)
	if err != nil {
		return err
	}
	defer func() { _ = b.conn.destroy(id) }()
	floor, err := pipeRate("head -c 1000000000 /dev/zero")
	if err != nil {
		return err
	}
	start := time.Now()
	o, err := b.conn.runCommand(id, "head -c 1000000000 /dev/zero")
	if err != nil {
		return err
	}
	if o.StdoutBytes != gigabyte {
		return fmt.Errorf("stdout_bytes is %d of 1 GB", o.StdoutBytes)
	}
	b.report.rate("1 GB into the log", gigabyte, time.Since(start), floor, 500)

	return b.streaming()
}

// streaming measures a reader that gets everything: the daemon keeps it all, because
// a log that is shorter than what is written tells a slow reader of gaps instead of
// waiting for it.
func (b *bench) streaming() error {
	d, err := startDaemon(b.binary, "--output-bytes", "512MiB")
	if err != nil {
		return err
	}
	defer d.stop()
	conn, err := dial(d.socket)
	if err != nil {
		return err
	}
	defer conn.close()
	id, err := conn.newSession(b.shells[0].path)
	if err != nil {
		return err
	}
	const text = 300_000_000
	command := fmt.Sprintf("yes 'a line of ordinary text, as programs write it' | head -c %d", text)
	floor, err := pipeRate(command)
	if err != nil {
		return err
	}
	start := time.Now()
	n, err := conn.stream(id, command)
	if err != nil {
		return err
	}
	if n != text {
		return fmt.Errorf("the stream carried %d of %d bytes", n, text)
	}
	b.report.rate("300 MB to a streaming reader", text, time.Since(start), floor, 200)
	return nil
}

// startPipe starts a command whose output is a bare pipe.
func startPipe(command string) (*bareShell, error) {
	cmd := exec.Command("/bin/sh", "-c", command)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &bareShell{cmd: cmd, out: bufio.NewReader(out)}, cmd.Start()
}

// pipeRate is how many bytes a second a bare reader gets of a command.
func pipeRate(command string) (float64, error) {
	cmd := exec.Command("/bin/sh", "-c", command)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	var n int64
	buf := make([]byte, 64<<10)
	for {
		m, err := out.Read(buf)
		n += int64(m)
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	took := time.Since(start)
	return float64(n) / took.Seconds(), cmd.Wait()
}

// stream runs a command with exec.stream and counts the bytes of stdout. The data
// is not decoded: the offset of the last push and the outcome tell how much it was.
func (w *wire) stream(id, command string) (int64, error) {
	line, err := request("exec.stream", object{"session_id": id, "command": command})
	if err != nil {
		return 0, err
	}
	if line, err = w.roundTrip(line); err != nil {
		return 0, err
	}
	if err := decode("exec.stream", line, nil); err != nil {
		return 0, err
	}
	for {
		if line, err = w.line(); err != nil {
			return 0, err
		}
		if bytes.Contains(line[:min(len(line), 200)], []byte(`"type":"gap"`)) {
			return 0, fmt.Errorf("a reader saw a gap in a log that is long enough: %s", line)
		}
		if bytes.Contains(line[:min(len(line), 200)], []byte(`"type":"exit"`)) {
			var exit outcome
			err := json.Unmarshal(line, &exit)
			return exit.StdoutBytes, err
		}
	}
}
