//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"
)

// codex speaks to the exec-server of Codex on its stdin and stdout: JSON-RPC, one object per line.
func codex(f *fixture, _ string) *subject {
	path := f.need("TRL_COMPARE_CODEX", "codex", "npm install -g @openai/codex, or name it in TRL_COMPARE_CODEX")
	cmd := exec.Command(path, "exec-server", "--listen", "stdio")
	cmd.Env = append(os.Environ(), "CODEX_HOME="+f.TempDir())
	in, err := cmd.StdinPipe()
	f.must(err)
	out, err := cmd.StdoutPipe()
	f.must(err)
	f.must(cmd.Start())
	f.Cleanup(func() { kill(cmd) })
	c := &lineRPC{in: in, waiting: map[int]chan message{}, pushes: map[string]chan push{}}
	go c.read(out)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	f.must(c.call(ctx, "initialize", object{"clientName": "compare"}, nil))
	f.must(c.send(object{"method": "initialized", "params": object{}}))
	n := 0
	return &subject{
		version: f.firstLine(path, "--version"), crash: func() { kill(cmd) },
		run: func(ctx context.Context, command string, limit time.Duration) (answer, error) {
			n++
			return c.run(ctx, fmt.Sprint("p", n), command, limit)
		},
	}
}

type object = map[string]any

// message is what a JSON-RPC server sends: an answer, or a push.
type message struct {
	ID     *int
	Result json.RawMessage
	Error  *struct{ Message string }
	Method string
	Params push
}

// push is what the exec-server reports about a process.
type push struct {
	method    string
	ProcessID string
	Chunk     []byte
	ExitCode  int
}

// lineRPC is a client of JSON-RPC on two pipes. One goroutine reads until the server ends.
type lineRPC struct {
	in io.Writer

	mu      sync.Mutex
	last    int                  // guarded by mu
	waiting map[int]chan message // guarded by mu
	pushes  map[string]chan push // guarded by mu; by process
}

func (c *lineRPC) read(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		c.mu.Lock()
		var answer chan message
		if m.ID != nil {
			answer = c.waiting[*m.ID]
			delete(c.waiting, *m.ID)
		}
		events := c.pushes[m.Params.ProcessID]
		c.mu.Unlock()
		switch {
		case answer != nil:
			answer <- m
		case events != nil:
			m.Params.method = m.Method
			events <- m.Params
		}
	}
}

func (c *lineRPC) send(request object) error {
	line, err := json.Marshal(request)
	if err == nil {
		_, err = c.in.Write(append(line, '\n'))
	}
	return err
}

func (c *lineRPC) call(ctx context.Context, method string, params object, result any) error {
	answer := make(chan message, 1)
	c.mu.Lock()
	c.last++
	id := c.last
	c.waiting[id] = answer
	err := c.send(object{"id": id, "method": method, "params": params})
	c.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return errors.New(m.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run starts a process and collects what the server pushes about it, until the output is closed or, where
// a child holds it open, for a moment after the exit. At the limit it ends the process.
func (c *lineRPC) run(ctx context.Context, id, command string, limit time.Duration) (answer, error) {
	events := make(chan push, 1<<16) // larger than what a task can leave behind unread
	c.mu.Lock()
	c.pushes[id] = events
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pushes, id)
	}()
	env := object{"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME")}
	err := c.call(ctx, "process/start", object{"processId": id, "argv": []string{"bash", "-c", command}, "cwd": "file:///tmp", "env": env, "tty": false, "pipeStdin": false}, nil)
	if err != nil {
		return answer{}, err
	}
	var a answer
	var over, moment <-chan time.Time
	if limit > 0 {
		over = time.After(limit)
	}
	for {
		select {
		case event := <-events:
			switch event.method {
			case "process/output":
				a.output = append(a.output, event.Chunk...)
				if moment != nil {
					moment = time.After(100 * time.Millisecond)
				}
			case "process/exited":
				a.status, moment = event.ExitCode, time.After(100*time.Millisecond)
			case "process/closed":
				return a, nil
			}
		case <-moment:
			return a, nil
		case <-over:
			return a, errors.Join(errors.New("timed out"), c.call(ctx, "process/terminate", object{"processId": id}, nil))
		case <-ctx.Done():
			return a, ctx.Err()
		}
	}
}

// httpAPI is a server that takes JSON by POST.
type httpAPI struct {
	url    string
	header map[string]string
}

func (h httpAPI) post(ctx context.Context, path string, body object, result any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	for key, value := range h.header {
		request.Header.Set(key, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 400 {
		err = fmt.Errorf("status %d: %s", response.StatusCode, text)
	}
	if err != nil || result == nil {
		return err
	}
	return json.Unmarshal(text, result)
}

func (h httpAPI) answers(path string) bool {
	response, err := http.Get(h.url + path)
	if err == nil {
		response.Body.Close()
	}
	return err == nil
}

// freePort returns a port of loopback that was free a moment ago.
func freePort(f *fixture) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	f.must(err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	f.must(err)
	return port
}

// sweRex is the server of SWE-ReX, with one session of bash; at the limit it is sent an interrupt, as
// SWE-agent does.
func sweRex(f *fixture, _ string) *subject {
	path := f.need("TRL_COMPARE_SWEREX", "swerex-remote", "pip install swe-rex, or name the program in TRL_COMPARE_SWEREX")
	const token = "compare"
	api := httpAPI{header: map[string]string{"X-API-Key": token}}
	s := &subject{
		version: f.firstLine(path, "--version"), session: true, marker: "SHELLPS1PREFIX",
		run: func(ctx context.Context, command string, limit time.Duration) (answer, error) {
			seconds := 1000.0
			if limit > 0 {
				seconds = limit.Seconds()
			}
			var r struct {
				Output   string
				ExitCode int `json:"exit_code"`
			}
			err := api.post(ctx, "/run_in_session", object{"action_type": "bash", "command": command, "session": "default", "timeout": seconds, "check": "silent"}, &r)
			if err != nil && limit > 0 {
				err = errors.Join(err, api.post(ctx, "/run_in_session", object{"action_type": "bash_interrupt", "session": "default", "timeout": 5}, nil))
			}
			return answer{r.ExitCode, []byte(r.Output)}, err
		},
	}
	s.renew = func() {
		if s.crash != nil {
			s.crash()
		}
		port := freePort(f)
		server := f.server(nil, path, "--host", "127.0.0.1", "--port", port, "--auth-token", token)
		s.crash = func() { kill(server) }
		api.url = "http://127.0.0.1:" + port
		f.until("swerex-remote", func() bool { return api.answers("/is_alive") })
		f.must(api.post(context.Background(), "/create_session", object{"session": "default", "session_type": "bash", "startup_timeout": 60}, nil))
	}
	return s
}

func sandboxAgent(f *fixture, _ string) *subject {
	path := f.need("TRL_COMPARE_SANDBOX_AGENT", "sandbox-agent", "npm install -g @sandbox-agent/cli, or name the program in TRL_COMPARE_SANDBOX_AGENT")
	port := freePort(f)
	server := f.server([]string{"HOME=" + f.TempDir()}, path, "server", "--no-token", "--no-telemetry", "--port", port)
	api := httpAPI{url: "http://127.0.0.1:" + port}
	f.until("sandbox-agent", func() bool { return api.answers("/v1/health") })
	// Its default cuts output after 1 MB.
	f.must(api.post(context.Background(), "/v1/processes/config", object{"maxConcurrentProcesses": 64, "defaultRunTimeoutMs": 300_000,
		"maxRunTimeoutMs": 300_000, "maxOutputBytes": 2 * bulkBytes, "maxLogBytesPerProcess": 10 << 20, "maxInputBytesPerRequest": 64 << 10}, nil))
	return &subject{
		version: f.firstLine(path, "--version"), crash: func() { kill(server) },
		run: func(ctx context.Context, command string, limit time.Duration) (answer, error) {
			body := object{"command": "bash", "args": []string{"-c", command}, "maxOutputBytes": 2 * bulkBytes}
			if limit > 0 {
				body["timeoutMs"] = limit.Milliseconds()
			}
			var r struct {
				ExitCode int
				Stdout   string
			}
			err := api.post(ctx, "/v1/processes/run", body, &r)
			return answer{r.ExitCode, []byte(r.Stdout)}, err
		},
	}
}
