package terminal_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/trl-dev/trl/internal/terminal"
	"github.com/trl-dev/trl/internal/terminal/cast"
)

// recording keeps what is recorded.
type recording struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	fails  error
	closed bool
}

func (r *recording) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails != nil && r.buf.Len() > 0 {
		return 0, r.fails
	}
	return r.buf.Write(p)
}

func (r *recording) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return nil
}

// events returns what was recorded, by code.
func (r *recording) events(t *testing.T) (cast.Header, map[string]string) {
	t.Helper()
	if !r.closed {
		t.Error("it was not closed")
	}
	reader, err := cast.NewReader(&r.buf)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for {
		e, err := reader.Next()
		if err != nil {
			return reader.Header(), got
		}
		got[e.Code] += e.Data
	}
}

func record(r *recording) func(*terminal.Config) {
	return func(c *terminal.Config) { c.Record, c.Title = r, "the command" }
}

// expect returns the events to wait for, and the function that reports them.
func expect() (told chan string, config func(*terminal.Config)) {
	told = make(chan string, 100)
	return told, func(c *terminal.Config) {
		c.Warn = func(err error) { told <- err.Error() }
		c.Changed = func() { told <- "changed" }
	}
}

func TestRecording(t *testing.T) {
	var r recording
	term := python(t, `
say(b"\xe2\x82"); time.sleep(0.01); say(b"\xac\n")
x = input("name? ")
print("hello", x)
sys.exit(4)
`, record(&r))
	term.see(`name\?`)
	term.Resize(100, 30)
	term.typeText("joe\n")
	term.end()
	term.Close()
	h, got := r.events(t)
	if h.Cols != 80 || h.Rows != 24 || h.Term != "xterm-256color" || h.Command != "the command" || h.Time.IsZero() {
		t.Errorf("%+v", h)
	}
	if got[cast.Output] != logged(term) || !strings.HasPrefix(got[cast.Output], "€\r\nname? joe\r\nhello joe") {
		t.Errorf("%q", got[cast.Output])
	}
	if got[cast.Resize] != "100x30" || got[cast.Exit] != "4" || got[cast.Input] != "" {
		t.Errorf("%q", got)
	}
}

func TestRecordingOfInput(t *testing.T) {
	var r recording
	term := start(t, []string{"cat"}, record(&r), func(c *terminal.Config) { c.RecordInput = true })
	term.typeText("secret\n")
	term.press("ctrl-d")
	term.end()
	if info := term.Info().Recording; info == nil || !info.Input || info.Stopped != "" {
		t.Errorf("%+v", info)
	}
	term.Close()
	if _, got := r.events(t); got[cast.Input] != "secret\n\x04" {
		t.Errorf("%q", got)
	}
}

func TestRecordingIsBounded(t *testing.T) {
	var r recording
	told, telling := expect()
	term := sh(t, `seq 20000; echo end; exec cat`, record(&r), telling, func(c *terminal.Config) { c.RecordLimit = 100_000 })
	if got := <-told; got != "changed" {
		t.Errorf("told %q", got)
	}
	term.press("ctrl-d")
	term.end()
	term.Close()
	info := term.Info().Recording
	if info.Bytes > 100_000 || info.Bytes < 50_000 || info.Bytes != int64(r.buf.Len()) || info.Stopped != "it has reached recording_bytes (100000)" {
		t.Errorf("%+v, %d bytes", info, r.buf.Len())
	}
	if _, got := r.events(t); !strings.HasPrefix(logged(term), got[cast.Output]) {
		t.Errorf("%q", tail(got[cast.Output]))
	}
}

func TestRecordingThatFails(t *testing.T) {
	r := recording{fails: errors.New("no space left")}
	told, telling := expect()
	term := sh(t, `seq 20000; echo end; read x`, record(&r), telling)
	got := <-told
	for got == "changed" { // the terminal may come first
		got = <-told
	}
	if got != "the recording stops: no space left" {
		t.Errorf("told %q", got)
	}
	term.see("end")
	term.press("enter")
	term.end()
	term.Close()
	if info := term.Info().Recording; info.Stopped != "no space left" {
		t.Errorf("%+v", info)
	}
	if lines := term.lines(); lines[len(lines)-1] != "end" {
		t.Errorf("%q", lines)
	}
}

func TestRecordingOnADiskThatHangs(t *testing.T) {
	var r recording
	r.mu.Lock() // nothing can be written
	_, telling := expect()
	term := sh(t, `head -c 20000000 /dev/zero | tr '\0' x; echo end`, record(&r), telling)
	term.end()
	if info := term.Info().Recording; !strings.Contains(info.Stopped, "too slow") || info.Bytes != 0 {
		t.Errorf("%+v", info)
	}
	r.mu.Unlock()
	term.Close()
	if !r.closed {
		t.Error("it was not closed")
	}
}

func TestRecordingInAFile(t *testing.T) {
	path := t.TempDir() + "/x.cast"
	term := sh(t, `echo hello`, func(c *terminal.Config) {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		c.Record = f
	})
	term.end()
	term.Close()
	info := term.Info().Recording
	if st, err := os.Stat(path); err != nil || info.Bytes != st.Size() || info.Bytes == 0 {
		t.Errorf("%+v %v %v", info, st, err)
	}
}
