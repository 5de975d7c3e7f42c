package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
)

// wire is the smallest client there can be: one request at a time, one line out,
// one line in. What is measured through it is TRL and not a client.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	next int
	out  []byte
}

func dial(socket string) (*wire, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, in: bufio.NewReaderSize(conn, 1<<20)}, nil
}

func (w *wire) close() { _ = w.conn.Close() }

// request makes the line of a call, without its id and newline.
func request(method string, params any) ([]byte, error) {
	p, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `,"method":%q,"params":%s}`, method, p), nil
}

// send writes a request made by request.
func (w *wire) send(request []byte) error {
	w.next++
	w.out = append(w.out[:0], `{"id":`...)
	w.out = strconv.AppendInt(w.out, int64(w.next), 10)
	w.out = append(append(w.out, request...), '\n')
	_, err := w.conn.Write(w.out)
	return err
}

// line reads one line. It is valid until the next one is read.
func (w *wire) line() ([]byte, error) {
	line, err := w.in.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, err
	}
	long := append([]byte(nil), line...)
	for err == bufio.ErrBufferFull {
		line, err = w.in.ReadSlice('\n')
		long = append(long, line...)
	}
	return long, err
}

// roundTrip sends a request and returns the line of its answer.
func (w *wire) roundTrip(request []byte) ([]byte, error) {
	if err := w.send(request); err != nil {
		return nil, err
	}
	return w.line()
}

// call makes one call and decodes the answer's data.
func (w *wire) call(method string, params, data any) error {
	r, err := request(method, params)
	if err != nil {
		return err
	}
	line, err := w.roundTrip(r)
	if err != nil {
		return err
	}
	return decode(method, line, data)
}

func decode(method string, line []byte, data any) error {
	answer := struct {
		OK    bool
		Data  any
		Error struct{ Code, Message string }
	}{Data: data}
	if err := json.Unmarshal(line, &answer); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if !answer.OK {
		return fmt.Errorf("%s: %s: %s", method, answer.Error.Code, answer.Error.Message)
	}
	return nil
}

type object = map[string]any

// newSession makes a session with a shell and returns its id.
func (w *wire) newSession(shell string) (string, error) {
	return w.create(object{"shell": shell, "working_dir": "/"})
}

// create makes a session and returns its id.
func (w *wire) create(params object) (string, error) {
	var info struct {
		SessionID string `json:"session_id"`
	}
	err := w.call("session.create", params, &info)
	return info.SessionID, err
}

func (w *wire) destroy(id string) error {
	return w.call("session.destroy", object{"session_id": id, "force": true}, nil)
}

// outcome is what is needed of a command's result.
type outcome struct {
	ExitCode    int   `json:"exit_code"`
	StdoutBytes int64 `json:"stdout_bytes"`
}

func (w *wire) runCommand(id, command string) (outcome, error) {
	var o outcome
	err := w.call("exec.run", object{"session_id": id, "command": command}, &o)
	if err == nil && o.ExitCode != 0 {
		err = fmt.Errorf("%q ended with %d", command, o.ExitCode)
	}
	return o, err
}
