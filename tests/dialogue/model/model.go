// Package model is two scripted language models on loopback, for tests that drive the real
// agents: one speaks the Messages API as Claude Code uses it, one the Responses API as Codex
// does. A marker such as [[plain]] in the newest text of the user picks a script, and the number
// of the model's answers after it is the step. Between requests the models remember only how often
// they returned a fault, so subagents, whose prompts have their own markers, and resumed
// conversations need nothing special.
package model

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Step is one answer of the model.
type Step struct {
	Thinking string   // what it thinks before it speaks
	Texts    []string // what it says; one block for each
	Tools    []Tool   // what it calls, all at once
	// Hold makes the answer endless: its text is sent, and nothing follows until the client
	// disconnects.
	Hold bool
	// Fault is what the client gets instead.
	Fault *Fault
}

// Tool is the call of a tool.
type Tool struct {
	Name  string
	Input map[string]any
}

// Fault is a model that cannot answer.
type Fault struct {
	// Status of the answer. 0: the connection is cut after the first piece of the text.
	Status int
	// Kind is the model's own word for it.
	Kind string
	// Times is how often it happens before the step is taken; 0 for always.
	Times int
}

// Say is an answer of that text, or of several blocks of text.
func Say(texts ...string) Step { return Step{Texts: texts} }

// Call adds calls of tools to the answer.
func (s Step) Call(tools ...Tool) Step {
	s.Tools = append(slices.Clone(s.Tools), tools...)
	return s
}

// Request is what a client asked the model.
type Request struct {
	Path   string
	Model  string
	Script string // that was picked; empty when there was no marker
	Step   int
	// Messages are the conversation as the client told it, the outputs of tools included.
	Messages []Message
	// Tools are the names of those that the model may call.
	Tools []string
	Body  []byte
}

// Message is one entry of a conversation.
type Message struct {
	Role string // user, assistant, or tool for the output of one
	Text string
	// markers says that the text is the user's own, where a marker counts.
	markers bool
	// answer tells the answers of the model apart: those of one are the same.
	answer string
}

// Says reports whether one of the messages of that role has the text in it.
func (r Request) Says(role, text string) bool {
	return slices.ContainsFunc(r.Messages, func(m Message) bool { return m.Role == role && strings.Contains(m.Text, text) })
}

// Server is a scripted model. Its goroutines are those of its HTTP server, one for each
// connection; Close ends them.
type Server struct {
	// URL is its address, without a path.
	URL string

	http    *httptest.Server
	closing chan struct{} // closed by Close: answers that hold end

	mu       sync.Mutex
	scripts  map[string][]Step
	faults   map[string]int // how often each step has returned its fault
	requests []Request
	closed   bool
}

// dialect is how a model is spoken to.
type dialect interface {
	// read understands a request.
	read(r *http.Request, body []byte) (Request, error)
	// fail tells a fault with a status.
	fail(w http.ResponseWriter, f Fault)
	// answer tells a step. It returns early when the client goes away.
	answer(w *reply, r Request, s Step)
}

// serve starts a server.
func serve(d dialect, scripts map[string][]Step) *Server {
	s := &Server{scripts: map[string][]Step{}, faults: map[string]int{}, closing: make(chan struct{})}
	for name, steps := range scripts {
		s.scripts[name] = steps
	}
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.handle(w, r, d) }))
	s.URL = s.http.URL
	return s
}

// during closes the server when the test ends.
func (s *Server) during(t testing.TB) *Server {
	t.Cleanup(s.Close)
	return s
}

// Script adds a script, or takes the place of one.
func (s *Server) Script(name string, steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[name] = steps
}

// Requests are those that were asked until now, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Close cuts every connection and waits for the end of what serves them. It may be called twice.
func (s *Server) Close() {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return
	}
	close(s.closing)
	s.http.CloseClientConnections()
	s.http.Close()
}

// ids makes what a model names with an id unique, over all servers of the process: a
// conversation may go on with another one.
var ids atomic.Int64

func (s *Server) handle(w http.ResponseWriter, r *http.Request, d dialect) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("content-type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[],"models":[]}`)
		return
	}
	req, err := d.read(r, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	req.Path, req.Body = r.URL.Path, body
	step := s.pick(&req)
	if f := step.Fault; f != nil && f.Status != 0 {
		d.fail(w, *f)
		return
	}
	out := &reply{w: w, gone: r.Context().Done(), closing: s.closing, id: ids.Add(1), cut: step.Fault != nil}
	d.answer(out, req, step)
	if out.cut {
		panic(http.ErrAbortHandler) // closes the connection without a word
	}
}

var marker = regexp.MustCompile(`\[\[([a-z0-9_-]+)\]\]`)

// pick finds the answer to a request, and records the request.
func (s *Server) pick(req *Request) Step {
	last := ""
	for _, m := range req.Messages {
		switch {
		case m.markers:
			if found := marker.FindAllStringSubmatch(m.Text, -1); found != nil {
				req.Script, req.Step, last = found[len(found)-1][1], 0, ""
			}
		case m.Role == "assistant" && (m.answer == "" || m.answer != last):
			req.Step++
			last = m.answer
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, *req)
	steps := s.scripts[req.Script]
	if len(steps) == 0 {
		return Say("There is no script named " + req.Script + ".")
	}
	step := steps[min(req.Step, len(steps)-1)]
	if step.Fault != nil && step.Fault.Times > 0 {
		key := fmt.Sprint(req.Script, " ", req.Step)
		if s.faults[key]++; s.faults[key] > step.Fault.Times {
			step.Fault = nil
		}
	}
	return step
}

// reply writes server-sent events.
type reply struct {
	w       http.ResponseWriter
	gone    <-chan struct{}
	closing <-chan struct{}
	id      int64 // of the answer
	cut     bool  // the connection is cut after the first piece of text
}

// event sends one, and reports whether to go on.
func (r *reply) event(name string, data map[string]any) bool {
	data["type"] = name
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // a script holds what JSON cannot
	}
	if _, err := fmt.Fprintf(r.w, "event: %s\ndata: %s\n\n", name, text); err != nil {
		return false
	}
	return http.NewResponseController(r.w).Flush() == nil
}

// hold waits until the client disconnects or the server closes: an unfinished answer must not look complete.
func (r *reply) hold() {
	select {
	case <-r.gone:
	case <-r.closing:
		panic(http.ErrAbortHandler)
	}
}

// pieces cuts a text as a model would send it; one of a megabyte and more in larger ones.
func pieces(text string) []string {
	size := 12
	if len(text) >= 1<<20 {
		size = 64 << 10
	}
	var list []string
	rest := []rune(text)
	for len(rest) > size {
		list, rest = append(list, string(rest[:size])), rest[size:]
	}
	return append(list, string(rest))
}
