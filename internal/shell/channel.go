package shell

import (
	"bytes"
	"strconv"
	"strings"
)

// status is one message on the status FIFO: a command, or a piece of
// bookkeeping, has ended.
type status struct {
	token string
	code  int
	cwd   string // "" when the shell does not know an absolute one
}

// maxStatus bounds one message: a token, a number and a path.
const maxStatus = 64 << 10

// parseStatus takes the first message of b and returns it with what follows. ok
// is false when no message is complete; malformed messages are skipped, so that
// nothing that anybody else writes to the FIFO can do more than waste time.
func parseStatus(b []byte) (st status, rest []byte, ok bool) {
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			if len(b) > maxStatus {
				b = nil
			}
			return status{}, b, false
		}
		line := string(b[:i])
		b = b[i+1:]
		token, line, found := strings.Cut(line, " ")
		code, cwd, found2 := strings.Cut(line, " ")
		n, err := strconv.Atoi(code)
		if !found || !found2 || err != nil || n < 0 || n > 255 || token == "" {
			continue
		}
		if !strings.HasPrefix(cwd, "/") {
			cwd = ""
		}
		return status{token: token, code: n, cwd: cwd}, b, true
	}
}
