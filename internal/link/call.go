package link

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/trl-dev/trl/api"
)

// Row is one line of the table of calls, without the types of its parameters and result.
type Row struct {
	Name   string
	Since  int // the protocol version that introduced the call
	Repeat Repeat
}

// Repeat says whether the daemon may make a call again when the link broke before the answer,
// so that the runner may have received the call or not.
type Repeat int

// The rules for repetitions. With an id the runner recognises the second call as a repetition.
const (
	Never     Repeat = iota
	Always           // the call changes nothing, or a second one changes nothing more
	ByRunID          // the daemon gives every command a run id
	ByWriteID        // if the input has a write id
	ByExecID         // if it names its command, which can end only once
)

// Call is a row with its types: P is a pointer to the parameters and R is one to the result.
// They are pointers because all pointers share one copy of a generic function; with a copy for
// each struct the runner would be a tenth of a megabyte larger.
type Call[P, R any] struct{ Row }

// Outgoing is a call that a daemon makes: a row with the parameters, the body and the place for
// the result. Call.With makes it, with the types of the row.
type Outgoing struct {
	*Row
	Params any
	Body   []byte
	Result any
}

// With makes the call with these parameters and this body. Its answer goes into result.
func (c *Call[P, R]) With(params P, body []byte, result R) Outgoing {
	return Outgoing{&c.Row, params, body, result}
}

// isolationProtocol is the first protocol whose runners know isolation; older ones would ignore it.
const isolationProtocol = 6

// Needs returns the first protocol whose runners can answer the call with these parameters, and
// what an older one cannot do.
func (o Outgoing) Needs() (protocol int, to string) {
	if p, ok := o.Params.(*CreateParams); ok && p.Params.Isolation != nil {
		return isolationProtocol, "isolate a session"
	}
	return o.Since, "answer the call " + o.Name
}

// Repeatable reports whether the call may be made again.
func (o Outgoing) Repeatable() bool {
	switch o.Repeat {
	case Always, ByRunID:
		return true
	case ByWriteID:
		switch p := o.Params.(type) {
		case *InputParams:
			return p.WriteID != ""
		case *SessionInputParams:
			return p.WriteID != ""
		}
	case ByExecID:
		p, ok := o.Params.(*CancelParams)
		return ok && p.ExecID != ""
	}
	return false
}

// Route is a call with the function of a runner that answers it.
type Route struct {
	Name   string
	Handle func(ctx context.Context, in *Incoming) error
}

// Reply makes the route of a call whose answer is only its result.
func (c *Call[P, R]) Reply(f func(context.Context, P) (R, error)) Route {
	return Route{c.Name, func(ctx context.Context, in *Incoming) error {
		p, err := decode[P](in)
		if err != nil {
			return err
		}
		result, err := f(ctx, p)
		if err == nil {
			in.Answer(result, nil)
		}
		return err
	}}
}

// Request is a call that a runner answers.
type Request[P, R any] struct {
	Params P
	Body   []byte
	in     *Incoming
}

// Conn is the connection on which the request came.
func (q *Request[P, R]) Conn() *Conn { return q.in.conn }

// Answer sends the answer. A handler calls it once, unless it returns an error, and may go on
// working after it.
func (q *Request[P, R]) Answer(result R, body []byte) { q.in.Answer(result, body) }

// Handle makes the route of a call that has a body, or work to do after its answer.
func (c *Call[P, R]) Handle(f func(context.Context, *Request[P, R]) error) Route {
	return Route{c.Name, func(ctx context.Context, in *Incoming) error {
		p, err := decode[P](in)
		if err != nil {
			return err
		}
		return f(ctx, &Request[P, R]{Params: p, Body: in.Body, in: in})
	}}
}

// decode makes the parameters of a request.
func decode[P any](in *Incoming) (P, error) {
	p := reflect.New(reflect.TypeFor[P]().Elem()).Interface().(P)
	if err := json.Unmarshal(in.Params, p); err != nil {
		return p, api.Errorf(api.CodeInternal, "runner: params: %s", err)
	}
	return p, nil
}
