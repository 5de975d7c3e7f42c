package client

import (
	"context"
	"sync/atomic"

	"github.com/trl-dev/trl/api"
)

// labelled is the label of the connections of a way; see Client.SystemHello.
type labelled struct{ label atomic.Pointer[string] }

func (l *labelled) keepLabel(label string) { l.label.Store(&label) }

// hello gives a new connection the label, if there is one, before any other request is sent on it. Its
// answer is not needed: no call has the id 0.
func (l *labelled) hello(ctx context.Context, c *conn) {
	if label := l.label.Load(); label != nil {
		_, _ = c.send(ctx, 0, "system.hello", api.SystemHelloParams{Label: *label}, false)
	}
}
