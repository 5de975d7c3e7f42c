// Package chat is the conversation with a coding agent: Talk for a person at a terminal, Answer
// for a program that wants one answer, and PrintTranscript for a dialogue of the past.
//
// progress follows how far the agent is, and view shows its events; neither does any other I/O.
package chat

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/early"
	"github.com/trl-dev/trl/internal/cli/ui"
)

// Options say which agent to talk with, and how.
type Options struct {
	// Open starts the agent, or finds the dialogue of a running one.
	Open func(context.Context) (api.DialogueInfo, error)

	Prompt  string        // the first message; "" for none
	Joined  bool          // the dialogue ran before, and goes on afterwards
	Keep    bool          // the agent goes on afterwards
	Timeout time.Duration // of Answer; 0 for none
	JSON    bool          // Answer prints the events as JSON
	Verbose bool
}

// conversation is the part that Talk and Answer share.
type conversation struct {
	Options
	streams ui.Streams
	client  *client.Client
	info    api.DialogueInfo // at the start
	ours    bool             // the agent ends when trl leaves
}

// update is one message of the goroutine that follows the dialogue.
type update struct {
	push api.StreamEvent
	err  error // the stream has ended with it
	away error // the connection is lost; nothing else is set
	back bool  // the connection is back; nothing else is set
}

// follow passes on the events of the dialogue after a sequence number. Its goroutine ends with
// the stream or with ctx.
func (ch *conversation) follow(ctx context.Context, after int64, noDeltas bool) (<-chan update, error) {
	s, err := ch.client.DialogueEvents(ctx, api.DialogueEventsParams{DialogueID: ch.info.DialogueID, AfterSeq: after, NoDeltas: noDeltas})
	if err != nil {
		return nil, err
	}
	events := make(chan update, 64)
	post := func(u update) bool {
		select {
		case events <- u:
			return true
		case <-ctx.Done():
			return false
		}
	}
	s.(*client.Stream).Watch(func(lost error) { post(update{away: lost, back: lost == nil}) })
	go func() {
		defer s.Close()
		for {
			push, err := s.Recv()
			if !post(update{push: push, err: err}) || err != nil {
				return
			}
		}
	}()
	return events, nil
}

// begin starts the agent, or finds its dialogue. It does not send the prompt.
func (ch *conversation) begin(ctx context.Context) (err error) {
	if ch.info, err = ch.Options.Open(ctx); err == nil {
		ch.ours = !ch.Keep && !ch.Joined
	}
	return err
}

// beginOrInterrupt is begin for a caller that may press Ctrl-C meanwhile. After one signal it
// still waits for the agent and reports interrupted, so that the caller can end the agent; after
// a second it returns at once.
func (ch *conversation) beginOrInterrupt(ctx context.Context, signals <-chan os.Signal) (interrupted bool, err error) {
	opened := make(chan error, 1)
	go func() { opened <- ch.begin(ctx) }()
	note := func(text string) {
		if err := ch.streams.Stderr; err.TTY {
			err.Line(err.Paint(ui.Dim, "· "+text))
		}
	}
	late := time.NewTimer(ui.NoticeTime)
	defer late.Stop()
	for {
		select {
		case err := <-opened:
			return interrupted, err
		case <-late.C:
			note("the agent is starting")
		case s := <-signals:
			if interrupted {
				return true, ui.ExitBySignal(s)
			}
			interrupted = true
			note("ending the agent as soon as it has started; Ctrl-C again leaves at once")
		}
	}
}

// closeOrInterrupt is close for a caller that may press Ctrl-C meanwhile. It calls slow if the
// agent takes a while to end.
func (ch *conversation) closeOrInterrupt(ctx context.Context, signals <-chan os.Signal, slow func()) error {
	closed := make(chan error, 1)
	go func() { closed <- ch.close(ctx) }()
	late := time.NewTimer(ui.NoticeTime)
	defer late.Stop()
	for {
		select {
		case err := <-closed:
			return err
		case <-late.C:
			slow()
		case s := <-signals:
			return ui.ExitBySignal(s)
		}
	}
}

// close ends the agent, unless it goes on. If the caller does not wait, the daemon ends it.
func (ch *conversation) close(ctx context.Context) error {
	if !ch.ours {
		return nil
	}
	_, err := ch.client.DialogueTerminate(ctx, api.DialogueTerminateParams{DialogueID: ch.info.DialogueID})
	if errors.Is(err, api.ErrDialogueEnded) {
		return nil
	}
	return err
}

// dialogueName returns the name of the dialogue, or its id if it has none.
func (ch *conversation) dialogueName() string { return cmp.Or(ch.info.Name, ch.info.DialogueID) }

// catchSignals returns the signals that end a conversation, without those that the caller's
// parent ignores. From now on, a write to a closed pipe fails instead of killing trl.
func catchSignals() (signals chan os.Signal, stop func()) {
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	signals = make(chan os.Signal, 4)
	for _, s := range early.EndSignals {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals, func() { signal.Stop(signals) }
}

// deliver sends the agent a message.
func (ch *conversation) deliver(ctx context.Context, id, text string) error {
	_, err := ch.client.DialogueSend(ctx, api.DialogueSendParams{DialogueID: ch.info.DialogueID, Text: text, MessageID: id})
	return err
}

// messageID makes an id for a message: a UUID of version 4.
func messageID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// interrupt stops the agent's turn. It ignores errors: the agent may have ended, or be idle.
func (ch *conversation) interrupt(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, interruptTime)
	defer cancel()
	_, _ = ch.client.DialogueInterrupt(ctx, api.DialogueInterruptParams{DialogueID: ch.info.DialogueID})
}

// interruptTime bounds the wait for the agent to confirm an interrupt.
const interruptTime = 2 * time.Second

// recordFailed is the code of a fault that ends by itself, once the disk has room again.
const recordFailed = "record_failed"

// lookEvery is how long the dialogue may be silent before trl asks the daemon for the reason. A
// record that cannot be written is no event: an event would have to be written.
const lookEvery = 2 * time.Second

// inspect asks the daemon for the state of the dialogue. It ignores errors: the stream reports
// them too.
func (ch *conversation) inspect(ctx context.Context, looks chan<- api.DialogueInfo) {
	info, _ := ch.client.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: ch.info.DialogueID})
	select {
	case looks <- info:
	case <-ctx.Done():
	}
}

// faultError returns the error for a dialogue that cannot go on.
func (ch *conversation) faultError(why api.DialogueFault) error {
	id := ch.info.DialogueID
	if why.Code == recordFailed {
		return &ui.Failure{Err: fmt.Errorf("dialogue %s: its record cannot be written: %s; it continues when the disk has room", id, why.Message), Status: ui.ExitBroken}
	}
	hint := fmt.Sprintf("`trl dialogue retry %s` tries again", id)
	switch why.Reason {
	case "auth_rejected":
		hint = fmt.Sprintf("renew the credentials, then `trl dialogue retry %s`", id)
	case "session_gone":
		hint = fmt.Sprintf("`trl chat --resume %s` starts the agent again", id)
	}
	return &ui.Failure{Err: fmt.Errorf("dialogue %s: the agent cannot be reached: %s", id, why.Message), Status: ui.ExitBroken, Hint: hint}
}
