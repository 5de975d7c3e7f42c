package cli

import (
	"bufio"
	"context"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pasteTime is how soon after a line another one must be there to belong to it: nobody
// types that fast.
const pasteTime = 10 // ms

// typed is a line that a person typed, or several that they pasted.
type typed struct {
	text string
	at   time.Time // when it was begun or, where that cannot be known, there to be read
	cut  bool      // the terminal has not taken all of it
}

// readTyped passes on what is typed into a terminal until that is at its end. A read of a
// terminal cannot be ended: this may outlive ctx.
func readTyped(ctx context.Context, terminal *os.File, out chan<- typed) {
	defer close(out)
	in := bufio.NewReader(terminal)
	for {
		var lines []string
		var t typed
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

// readable reports whether there is something to read already.
func readable(f *os.File) bool {
	poll := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, pasteTime)
	return err == nil && n == 1 && poll[0].Revents&unix.POLLIN != 0
}

// longestTyped is what a terminal takes of a line; the kernel drops the rest.
func longestTyped() int {
	if runtime.GOOS == "darwin" {
		return 1023
	}
	return 4095
}
