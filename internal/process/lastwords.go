package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
)

// noThread are the beginnings of the messages of the Go runtime when the system refuses it a
// thread: without and with the C library.
var noThread = []string{"runtime: failed to create new OS thread", "runtime/cgo: pthread_create failed"}

// LastWords finds the most useful line in the log of a Go program that has ended: the cause of the
// last crash, else the very last line. NoRoom is that of Crash.
func LastWords(path string) (last string, noRoom bool) {
	const most = 64 << 10
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil && !errors.Is(err, io.EOF) {
		return "", false
	}
	last, noRoom = Crash(text)
	if last == "" {
		lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
		last = strings.ToValidUTF8(string(bytes.TrimSpace(lines[len(lines)-1])), "?")
	}
	if len(last) > 300 {
		last = strings.ToValidUTF8(last[:300], "") + "..."
	}
	return last, noRoom
}

// Crash finds the cause of the last crash in what a Go program has written, "" if there was none.
// NoRoom says that it could not start a thread.
func Crash(text []byte) (cause string, noRoom bool) {
	for line := range bytes.Lines(text) {
		s := strings.ToValidUTF8(strings.TrimSpace(string(line)), "?")
		if strings.HasPrefix(s, noThread[0]) || strings.HasPrefix(s, noThread[1]) {
			return ErrLimit.Error(), true
		}
		if strings.HasPrefix(s, "panic: ") || strings.HasPrefix(s, "fatal error: ") {
			cause = s
		}
	}
	return cause, false
}
