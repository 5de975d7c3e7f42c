package cli

import (
	"fmt"
	"time"

	"github.com/trl-dev/trl/internal/cli/ui"
)

// When the progress is first shown, and how often after that.
const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

// progress is a line on a terminal that shows how far a transfer is. A short transfer shows
// none. One goroutine uses it.
type progress struct {
	out   *ui.Printer // nil to show nothing
	total int64       // 0 if unknown
	done  int64
	begin time.Time
	next  time.Time // when to show it again
	shown bool
}

// newProgress returns the progress of a transfer, which is shown if stderr is a terminal. With
// onTerminal, the transfer itself is from or to a terminal, and shows no progress.
func (a *app) newProgress(total int64, onTerminal bool) *progress {
	now := time.Now()
	g := &progress{total: total, begin: now, next: now.Add(progressAfter)}
	if a.Stderr.Redraws() && !onTerminal {
		g.out = a.Stderr
	}
	return g
}

// add counts n more bytes, and shows the progress if it is time.
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

// clear removes the line, so that other output can follow.
func (g *progress) clear() {
	if g.shown {
		_, _ = g.out.Write([]byte("\r\x1b[K"))
		g.shown = false
	}
}
