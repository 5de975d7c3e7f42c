package main

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// agent is what both protocols have in common: messages come in and are worked on one
// after the other.
//
// Goroutines: read, turns, and that of the signals; all end with the process.
type agent struct {
	settings
	out   *output
	voice voice
	heard *os.File
	ids   atomic.Int64
	// stubborn ignores signals, patient the end of stdin, deafened stops reading.
	stubborn, patient, deafened atomic.Bool

	mu     sync.Mutex
	queue  []message              // guarded by mu
	closed bool                   // guarded by mu; stdin has ended
	news   chan struct{}          // guarded by mu; closed when one of the two changes
	stop   chan struct{}          // guarded by mu; closed when the turn is interrupted, nil between turns
	asked  map[string]chan answer // guarded by mu; by id of the request
	early  bool                   // guarded by mu; interrupted before it began
	rude   bool                   // the last turn was interrupted; used by turns alone
}

// answer is the answer to a request; nil if none can arrive any more.
type answer = obj

// message is one that was sent to the agent.
type message struct {
	id, text string
	request  any // the id of the call, with ACP
}

// voice is one of the protocols.
type voice interface {
	hear(line []byte)          // takes a line of stdin
	begin(m message)           // a turn
	end(how error)             // the turn
	text(text string) obj      // what is written for a text, in one line
	say(text string)           // with partial messages, if those are wanted
	think(text string)         //
	tool(name, subject string) // a call with its result
	ask(name, subject string) error
	do(command, rest string) (known bool, err error) // what only this one can
	over()                                           // all that was sent is done; stdin has ended
}

func newAgent(s settings) *agent {
	a := &agent{settings: s, out: &output{dieAt: s.dieAt, dieHow: s.dieHow, tee: appendTo(s.tee)}, heard: appendTo(s.heard),
		news: make(chan struct{}), asked: map[string]chan answer{}}
	if s.acp {
		a.voice = newACP(a)
	} else {
		a.voice = newClaude(a)
	}
	return a
}

func appendTo(path string) *os.File {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		leave(70, "%s", err)
	}
	return f
}

// read hands on lines of stdin until its end.
func (a *agent) read(from io.Reader) {
	in := bufio.NewReader(from)
	for {
		if a.deafened.Load() {
			forever()
		}
		line, err := in.ReadBytes('\n')
		if a.heard != nil {
			_, _ = a.heard.Write(line)
		}
		if err != nil {
			break
		}
		if !a.silent {
			a.voice.hear(line[:len(line)-1])
		}
	}
	if a.patient.Load() {
		forever()
	}
	a.mu.Lock()
	a.closed = true
	for _, c := range a.asked {
		close(c)
	}
	a.asked = map[string]chan answer{}
	a.changedLocked()
	a.mu.Unlock()
}

// changedLocked wakes turns.
func (a *agent) changedLocked() {
	close(a.news)
	a.news = make(chan struct{})
}

func (a *agent) enqueue(m message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue = append(a.queue, m)
	a.changedLocked()
}

// unqueue drops a message that waits, and says whether it did.
func (a *agent) unqueue(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := len(a.queue)
	a.queue = slices.DeleteFunc(a.queue, func(m message) bool { return m.id == id })
	return len(a.queue) < before
}

// queued is how many messages wait.
func (a *agent) queued() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queue)
}

// turns works on one message after the other, and ends the process when there will be none.
func (a *agent) turns() {
	for {
		a.mu.Lock()
		for len(a.queue) == 0 && !a.closed {
			news := a.news
			a.mu.Unlock()
			<-news
			a.mu.Lock()
		}
		if len(a.queue) == 0 {
			a.mu.Unlock()
			a.voice.over()
			if a.rude {
				os.Exit(1) // as the real one does
			}
			os.Exit(0)
		}
		m := a.queue[0]
		a.queue = a.queue[1:]
		a.stop = make(chan struct{})
		if a.early {
			a.early, a.stop = false, nil
		}
		a.mu.Unlock()
		a.voice.begin(m)
		err := a.run(m.text)
		a.rude = err == errInterrupted || err == errInterruptedTool
		a.rest() // before the message about the end: an interrupt after it is for the next turn
		a.voice.end(err)
		a.rest()
	}
}

// interrupt stops the turn and says whether there was one. before is done first, with the
// ids of the requests that are open.
func (a *agent) interrupt(before func(open []string)) bool {
	a.mu.Lock()
	var open []string
	for id := range a.asked {
		open = append(open, id)
	}
	stop := a.stop
	a.early = stop == nil && len(a.queue) > 0
	a.stop = nil
	a.mu.Unlock()
	before(open)
	if stop != nil {
		close(stop)
	}
	return stop != nil
}

// stopped is closed when the turn is interrupted.
func (a *agent) stopped() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stop == nil { // it was, just now
		c := make(chan struct{})
		close(c)
		return c
	}
	return a.stop
}

// expect returns the channel for the answer to a request. Call it before writing the request.
func (a *agent) expect(id string) <-chan answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := make(chan answer, 1)
	if a.closed {
		close(c)
	} else {
		a.asked[id] = c
	}
	return c
}

// answered passes an answer to the turn that waits for it. A second answer is dropped.
func (a *agent) answered(id string, got answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, ok := a.asked[id]; ok {
		delete(a.asked, id)
		c <- got
	}
}

// forget drops a request that needs no answer any more.
func (a *agent) forget(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.asked, id)
}

// gate tells that the script has come here, and waits until it may go on.
func (a *agent) gate(name string) error {
	stop := a.stopped()
	path := filepath.Join(a.gates, name)
	if err := os.WriteFile(path+".reached", nil, 0o600); err != nil {
		leave(70, "gate: %s", err)
	}
	for {
		if _, err := os.Stat(path + ".open"); err == nil {
			return nil
		}
		select {
		case <-stop:
			return errInterrupted
		case <-time.After(time.Millisecond):
		}
	}
}

// uuid makes the next id. Those of two runs with the same seed are equal; a resumed
// conversation has other ones than the one before.
func (a *agent) uuid() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", a.seed, a.resume, a.ids.Add(1)))
	sum[6], sum[8] = sum[6]&0x0f|0x40, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// rest says that there is nothing to interrupt.
func (a *agent) rest() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop = nil
}

// renew lets what follows be interrupted, when the turn before was.
func (a *agent) renew() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop = make(chan struct{})
}
