package servicetest

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
)

// Show writes a push of exec.stream the way a test can read it.
func Show(ev api.StreamEvent) string {
	switch ev.Type {
	case api.EventExit:
		return fmt.Sprintf("%d exit %d", ev.Seq, ev.ExitCode)
	case api.EventGap:
		return fmt.Sprintf("%d gap %s %d-%d", ev.Seq, ev.Stream, *ev.From, *ev.To)
	}
	return fmt.Sprintf("%d %s@%d %q", ev.Seq, ev.Type, *ev.Offset, api.Data(ev.Data, ev.DataBase64))
}

// All returns the pushes of a stream until it ends.
func All(t *testing.T, st api.Stream) []string {
	t.Helper()
	defer st.Close()
	var got []string
	for {
		ev, err := st.Recv()
		if err == io.EOF {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.StreamID != st.Start().StreamID {
			t.Errorf("stream_id = %q, want %q", ev.StreamID, st.Start().StreamID)
		}
		got = append(got, Show(ev))
	}
}

// WantLines compares two lists of lines.
func WantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// Stream calls exec.stream.
func Stream(t *testing.T, s api.Service, p api.ExecStreamParams) api.Stream {
	t.Helper()
	st, err := s.ExecStream(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return st
}
