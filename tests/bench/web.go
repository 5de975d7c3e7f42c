package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// webText is how many bytes each reader of a stream gets.
const webText = 300_000_000

// web measures HTTP: the latency of a command, and a reader of a lot of output, as
// NDJSON and as raw bytes. The floors are net/http itself, in this process.
func (b *bench) web() error {
	d, err := startDaemon(b.binary, "--output-bytes", "512MiB", "--session-output-bytes", "4GiB", "--http", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer d.stop()
	h, err := dialHTTP(d)
	if err != nil {
		return err
	}
	floor, err := startFloor()
	if err != nil {
		return err
	}
	defer floor.Close()
	session, err := h.object("session.create", object{"shell": b.shells[0].path})
	if err != nil {
		return err
	}
	id := session["session_id"]
	empty, err := sample(1000, func() error {
		return drain(h.client.Post(floor.url+"/empty", "application/json", strings.NewReader("{}")))
	})
	if err != nil {
		return err
	}
	builtin, err := sample(1000, func() error {
		_, err := h.object("exec.run", object{"session_id": id, "command": "true"})
		return err
	})
	if err != nil {
		return err
	}
	b.report.latency("HTTP: "+b.shells[0].name+": true", builtin, empty, 0, 0)

	began := time.Now()
	if err := drain(h.client.Get(floor.url + "/bytes")); err != nil {
		return err
	}
	rate := webText / time.Since(began).Seconds()
	return b.webReaders(h, id, rate)
}

func (b *bench) webReaders(h *webClient, id any, floor float64) error {
	command := fmt.Sprintf("yes 'a line of ordinary text, as programs write it' | head -c %d", webText)
	began := time.Now()
	resp, err := h.post("exec.stream", object{"session_id": id, "command": command})
	if err != nil {
		return err
	}
	n, err := ndjsonBytes(resp.Body)
	resp.Body.Close()
	if err != nil || n != webText {
		return fmt.Errorf("NDJSON carried %d of %d bytes: %w", n, webText, err)
	}
	b.report.rate("300 MB to an NDJSON reader over HTTP", webText, time.Since(began), floor, 0)

	began = time.Now()
	started, err := h.object("exec.start", object{"session_id": id, "command": command, "wait": true})
	if err != nil {
		return err
	}
	resp, err = h.get("/v1/exec/" + started["exec_id"].(string) + "/stdout?follow=1")
	if err != nil {
		return err
	}
	n, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if err != nil || n != webText {
		return fmt.Errorf("the raw reader got %d of %d bytes: %w", n, webText, err)
	}
	b.report.rate("300 MB to a raw reader over HTTP", webText, time.Since(began), floor, 0)
	return nil
}

// ndjsonBytes reads a stream to its exit and returns how much stdout there was.
func ndjsonBytes(r io.Reader) (int64, error) {
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return 0, fmt.Errorf("a push is longer than %d bytes", len(line))
		}
		if err != nil {
			return 0, err
		}
		switch head := line[:min(len(line), 200)]; {
		case bytes.Contains(head, []byte(`"type":"gap"`)):
			return 0, fmt.Errorf("a gap: %s", line)
		case bytes.Contains(head, []byte(`"type":"exit"`)):
			var exit outcome
			err := json.Unmarshal(line, &exit)
			return exit.StdoutBytes, err
		}
	}
}

// webClient speaks HTTP with the daemon.
type webClient struct {
	url, token string
	client     *http.Client
}

func dialHTTP(d *daemon) (*webClient, error) {
	conn, err := dial(d.socket)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	line, err := request("system.info", object{})
	if err != nil {
		return nil, err
	}
	if line, err = conn.roundTrip(line); err != nil {
		return nil, err
	}
	var info struct {
		HTTP string `json:"http"`
	}
	if err := decode("system.info", line, &info); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(d.dir, "state", "token"))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(text))
	return &webClient{url: info.HTTP, token: fields[len(fields)-1], client: &http.Client{Transport: &http.Transport{}}}, nil
}

func (h *webClient) do(req *http.Request) (*http.Response, error) {
	req.Header.Set("Authorization", "Bearer "+h.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := h.client.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		err = fmt.Errorf("%s: %s: %s", req.URL.Path, resp.Status, text)
	}
	return resp, err
}

func (h *webClient) get(path string) (*http.Response, error) {
	req, err := http.NewRequest("GET", h.url+path, nil)
	if err != nil {
		return nil, err
	}
	return h.do(req)
}

func (h *webClient) post(method string, params object) (*http.Response, error) {
	body, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest("POST", h.url+"/v1/"+method, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return h.do(req)
}

func (h *webClient) object(method string, params object) (object, error) {
	resp, err := h.post(method, params)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var o object
	err = json.NewDecoder(resp.Body).Decode(&o)
	return o, err
}

func drain(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// floorServer is net/http with nothing behind it.
type floorServer struct {
	net.Listener
	url string
}

func startFloor() (*floorServer, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/empty", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "{}")
	})
	mux.HandleFunc("/bytes", func(w http.ResponseWriter, _ *http.Request) {
		piece := make([]byte, 256<<10)
		for n := 0; n < webText; n += len(piece) {
			if _, err := w.Write(piece[:min(len(piece), webText-n)]); err != nil {
				return
			}
		}
	})
	go func() { _ = http.Serve(ln, mux) }()
	return &floorServer{ln, "http://" + ln.Addr().String()}, nil
}

// streams measures how soon the first byte is with a reader, and many readers of
// many commands at once.
func (b *bench) streams() error {
	id, err := b.conn.newSession(b.shells[0].path)
	if err != nil {
		return err
	}
	defer func() { _ = b.conn.destroy(id) }()
	if err := b.firstByte(id); err != nil {
		return err
	}
	const count, size = 200, 1_000_000
	command := fmt.Sprintf("yes text | head -c %d", size)
	floor, err := together(count, func() error {
		_, err := pipeRate(command)
		return err
	})
	if err != nil {
		return err
	}
	took, err := together(count, func() error { return b.oneOfMany(command, size) })
	if err != nil {
		return err
	}
	b.report.rate(fmt.Sprintf("%d sessions stream 1 MB each at once, with their making", count), count*size, took, count*size/floor.Seconds(), 0)
	return nil
}

// together calls f n times at once and returns how long all took.
func together(n int, f func() error) (time.Duration, error) {
	began := time.Now()
	var all sync.WaitGroup
	failed := make([]error, n)
	for i := range n {
		all.Go(func() { failed[i] = f() })
	}
	all.Wait()
	return time.Since(began), errors.Join(failed...)
}

func (b *bench) oneOfMany(command string, size int64) error {
	conn, err := dial(b.daemon.socket)
	if err != nil {
		return err
	}
	defer conn.close()
	id, err := conn.newSession("/bin/sh")
	if err != nil {
		return err
	}
	n, err := conn.stream(id, command)
	if err == nil && n != size {
		err = fmt.Errorf("%d of %d bytes", n, size)
	}
	return errors.Join(err, conn.destroy(id))
}

// firstByte has a command write down when it wrote, and a reader when it read. The
// clock is the same; the floor is a reader of a bare pipe.
func (b *bench) firstByte(id string) error {
	const times = 200
	command := fmt.Sprintf("i=0; while [ $i -lt %d ]; do sleep 0.005; date +%%s%%N; i=$((i+1)); done", times)
	var ours, floor samples
	take := func(list *samples, text []byte, now time.Time) {
		var ns int64
		if _, err := fmt.Sscan(string(text), &ns); err == nil {
			*list = append(*list, now.Sub(time.Unix(0, ns)))
		}
	}
	line, err := request("exec.stream", object{"session_id": id, "command": command})
	if err != nil {
		return err
	}
	if _, err = b.conn.roundTrip(line); err != nil {
		return err
	}
	for {
		line, err := b.conn.line()
		now := time.Now()
		if err != nil {
			return err
		}
		var push struct{ Type, Data string }
		if err := json.Unmarshal(line, &push); err != nil {
			return err
		}
		if push.Type == "exit" {
			break
		}
		take(&ours, []byte(push.Data), now)
	}
	bare, err := startPipe(command)
	if err != nil {
		return err
	}
	for {
		text, err := bare.out.ReadBytes('\n')
		if err != nil {
			break
		}
		take(&floor, text, time.Now())
	}
	if err := bare.cmd.Wait(); err != nil {
		return err
	}
	b.report.latency("from date's clock to a streaming reader", ours, floor, 2*time.Millisecond, 0)
	return nil
}
