package client

import (
	"context"
	"encoding/json"
)

// FirstToken is the reader of a file of tokens.
var FirstToken = firstToken

// ErrClosed is what calls answer after Close.
var ErrClosed error = errClosed

// Lost is the error of a lost connection.
func Lost(cause error) error { return &lost{cause: cause, sent: true} }

// FailureOf says what is worth another try.
var FailureOf = failureOf

// Pace returns the two methods of a pacer.
func Pace(b Backoff) (wait func(context.Context) bool, over func()) {
	p := &pacer{Backoff: b}
	return p.wait, p.over
}

// Over returns a Client whose calls are served by call.
func Over(call func() error) *Client { return newClient(calls{serve: call}, DefaultReconnectFor) }

// calls is a way that does nothing but call a function.
type calls struct {
	way
	serve func() error
}

func (c calls) call(context.Context, string, any) (json.RawMessage, error) {
	return json.RawMessage("{}"), c.serve()
}
