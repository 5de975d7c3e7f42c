package client_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

// FuzzStream: with any bytes of a daemon after the answer, the stream ends, and numbers and offsets
// only grow.
func FuzzStream(f *testing.F) {
	f.Add("{\"stream_id\":\"x\",\"seq\":1,\"type\":\"stdout\",\"offset\":0,\"data\":\"a\"}\n{\"stream_id\":\"x\",\"seq\":2,\"type\":\"exit\"}\n")
	f.Add("{\"stream_id\":\"x\",\"seq\":5,\"type\":\"stdout\",\"offset\":9,\"data\":\"abc\"}\n{\"stream_id\":\"x\",\"seq\":3,\"type\":\"stdout\",\"offset\":7,\"data\":\"\",\"data_base64\":\"!!!!!!!!\"}\n")
	f.Add("{\"stream_id\":\"x\",\"seq\":1,\"type\":\"gap\",\"stream\":\"stdout\",\"from\":-9223372036854775808,\"to\":5}\n")
	f.Add("{\"stream_id\":\"x\",\"seq\":1,\"type\":\"stderr\",\"offset\":-9223372036854775808,\"data\":\"abc\"}\n")
	f.Add("{\"stream_id\":\"x\",\"seq\":1,\"type\":\"stdout\",\"offset\":9223372036854775807,\"data\":\"abc\"}\n")
	f.Add("{\"stream_id\":\"x\",\"seq\":1,\"type\":\"error\"}\n")
	f.Fuzz(func(t *testing.T, said string) {
		ours, theirs := net.Pipe()
		c := client.New(ours)
		defer c.Close()
		go func() {
			defer theirs.Close()
			if _, err := bufio.NewReader(theirs).ReadString('\n'); err != nil {
				return
			}
			_, _ = fmt.Fprint(theirs, "{\"id\":\"1\",\"ok\":true,\"data\":{\"stream_id\":\"x\",\"exec_id\":\"x\"}}\n"+said)
		}()
		s, err := c.ExecStream(context.Background(), api.ExecStreamParams{ExecID: "x"})
		if err != nil {
			return
		}
		defer s.Close()
		at := map[string]int64{}
		for {
			ev, err := s.Recv()
			if err != nil {
				return
			}
			if (ev.Type == api.EventStdout || ev.Type == api.EventStderr) && ev.Offset != nil && *ev.Offset >= 0 {
				if *ev.Offset < at[ev.Type] {
					t.Errorf("%s at %d after %d", ev.Type, *ev.Offset, at[ev.Type])
				}
				at[ev.Type] = *ev.Offset
			}
		}
	})
}

func FuzzTokenFile(f *testing.F) {
	for _, seed := range []string{"", "abc", "full abc\n", "# x\nread r\n\nfull  f x", "read", "full", "\r\n\t a\r\n", "full\f#"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token := client.FirstToken(text)
		second := false // word of a line, where # is no comment
		for line := range strings.Lines(text) {
			words := strings.Fields(line)
			second = second || len(words) > 1 && words[1] == token
		}
		if strings.ContainsAny(token, " \t\r\n") || strings.HasPrefix(token, "#") && !second {
			t.Errorf("%q of %q", token, text)
		}
		if token != "" && !strings.Contains(text, token) {
			t.Errorf("%q is not in %q", token, text)
		}
	})
}
