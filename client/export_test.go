package client

import "context"

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
