package cli

import (
	"fmt"
	"time"

	"github.com/trl-dev/trl/internal/cli/ui"
)

// When progress is first shown, and how often after that.
const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

// progress is a line on a terminal that tells how far a transfer is. A transfer that
// takes no time shows none. It is used by one goroutine.
type progress struct {
	out   *ui.Printer // nil when nothing is to be shown
	total int64       // 0 when nobody knows
	done  int64
	begin time.Time
	next  time.Time // when it is shown again
	shown bool
}

// newProgress shows the progress of what goes from or to a file that is no terminal.
func (a *app) newProgress(total int64, toTerminal bool) *progress {
	now := time.Now()
	g := &progress{total: total, begin: now, next: now.Add(progressAfter)}
	if a.Stderr.TTY && !toTerminal {
		g.out = a.Stderr
	}
	return g
}

// add counts n more bytes.
func (g *progress) add(n int) {
	g.done += int64(n)
	now := time.Now()
	if g.out == nil || now.Before(g.next) {
		return
	}
	g.next = now.Add(progressEvery)
	g.shown = true
	_, _ = g.out.Write([]byte("\r\x1b[K" + g.out.Paint(ui.Dim, g.text(now.Sub(g.begin)))))
}

func (g *progress) text(took time.Duration) string {
	text := ui.BytesText(float64(g.done))
	if g.total > 0 {
		text += fmt.Sprintf(" of %s, %d%%", ui.BytesText(float64(g.total)), min(100, g.done*100/g.total))
	}
	return text + ", " + ui.BytesText(float64(g.done)/took.Seconds()) + "/s"
}

// clear takes the line away, so that something else can be written.
func (g *progress) clear() {
	if g.shown {
		_, _ = g.out.Write([]byte("\r\x1b[K"))
		g.shown = false
	}
}
