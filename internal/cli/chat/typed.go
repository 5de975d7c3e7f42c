package chat

import (
	"bufio"
	"context"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pasteTime is how soon a line must follow another one to be pasted with it: no person types
// that fast.
const pasteTime = 10 // ms

// typedLine is a line that a person typed, or several pasted ones.
type typedLine struct {
	text string
	at   time.Time // when the person began it or, without an editor, entered it
	cut  bool      // the terminal dropped the end of it
}

// readTyped passes on lines from a terminal without an editor, until its end. It may outlive ctx:
// a read of a terminal cannot be ended.
func readTyped(ctx context.Context, terminal *os.File, out chan<- typedLine) {
	defer close(out)
	in := bufio.NewReader(terminal)
	for {
		var lines []string
		var t typedLine
		var err error
		for len(lines) == 0 || err == nil && (in.Buffered() > 0 || readable(terminal)) {
			var line string
			line, err = in.ReadString('\n')
			if err != nil && line == "" {
				break
			}
			if len(lines) == 0 {
				t.at = time.Now()
			}
			line = strings.TrimRight(line, "\r\n")
			t.cut = t.cut || len(line) >= longestTyped()
			lines = append(lines, line)
		}
		if t.text = strings.Join(lines, "\n"); len(lines) > 0 {
			select {
			case out <- t:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// readable reports whether there is input to read within pasteTime.
func readable(f *os.File) bool {
	poll := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, pasteTime)
	return err == nil && n == 1 && poll[0].Revents&unix.POLLIN != 0
}

// longestTyped returns the longest line that a terminal accepts; the kernel drops the rest.
func longestTyped() int {
	if runtime.GOOS == "darwin" {
		return 1023
	}
	return 4095
}
