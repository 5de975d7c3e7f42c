package shell

import (
	"bytes"
	"strconv"
	"strings"
)

// status is one message on the status channel: the shell has finished a command, or the control
// text before the message.
type status struct {
	token string
	code  int
	cwd   string // "" if the shell did not report an absolute path
}

// maxStatus bounds one message: a token, a number and a path.
const maxStatus = 64 << 10

// parseStatus returns the first valid message of b and the rest of b. ok is false when there is
// no complete message. Malformed messages are skipped, so that another process that writes to
// the channel can only waste time.
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
