package output_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trl-dev/trl/internal/output"
)

// Multibyte text is split at every byte, with both streams in turn. A reader that resumes after any
// record gets exactly the bytes that follow it.
func TestTornCharactersAreWholeInRecords(t *testing.T) {
	synctest.Test(t, testTornCharacters) // time must not pass
}

func testTornCharacters(t *testing.T) {
	text := strings.Repeat("aé€😀", 3)
	for _, sizes := range [][2]int{{1, 1}, {1, 2}, {2, 3}, {3, 1}, {5, 7}} {
		for _, readEvery := range []int{1, 3, 1000} {
			l := newLog(1 << 20)
			m := newModel(t, l, 1, [2][]byte{[]byte(text), []byte(text[3:])})
			for i := range 4 * len(text) {
				m.write(output.Stream(i%2), sizes[i%2], i%3 == 0)
				if i%readEvery == 0 {
					m.readers[0].read(output.MaxRecord)
				}
			}
			m.markOnce()
			m.close()
			m.readers[0].drain(1)
			for i := range m.readers[0].seen {
				again := &reader{m: m, spot: m.readers[0].seen[i]}
				again.drain(i % 7)
			}
		}
	}
}

// A character is split at the end of a page in every possible way.
func TestTornCharactersAtTheEndOfAPage(t *testing.T) {
	synctest.Test(t, testTornPages)
}

func testTornPages(t *testing.T) {
	text := bytes.Repeat([]byte("😀"), 100_000)
	for shift := range 4 {
		for _, direct := range []bool{false, true} {
			l := newLog(1 << 20)
			m := newModel(t, l, 1, [2][]byte{append(bytes.Repeat([]byte("x"), shift), text...), []byte("é")})
			for len(m.data[0]) < 390_000 {
				m.write(output.Stdout, 50_001, direct)
				m.write(output.Stderr, 1, direct)
			}
			m.markOnce()
			m.close()
			m.readers[0].drain(output.MaxRecord)
			for i := range m.readers[0].seen {
				again := &reader{m: m, spot: m.readers[0].seen[i]}
				again.drain(output.MaxRecord)
			}
		}
	}
}

func TestTheBeginningOfACharacterIsHeldForFiftyMilliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(1 << 20)
		want := func(when, text string, seq int64) {
			t.Helper()
			synctest.Wait()
			recs, data, next := l.Read(0, output.MaxRecord, nil)
			if string(data) != text || next != seq {
				t.Fatalf("%s: %q up to %d (%v), want %q up to %d", when, data, next, recs, text, seq)
			}
		}
		put := func(s string) { l.Append(output.Stdout, []byte(s)) }

		put("a\xe2")
		want("written", "a", 1)
		if got := l.Bytes(output.Stdout); got != 2 {
			t.Errorf("%d bytes, want 2 with what is held", got)
		}
		if n, gapTo, err := l.ReadAt(output.Stdout, 2, make([]byte, 9)); n != 0 || gapTo != 0 || err != nil {
			t.Errorf("ReadAt behind what is held: %d %d %v", n, gapTo, err)
		}
		time.Sleep(30 * time.Millisecond)
		put("\x82") // the next byte of the same character does not restart the time
		time.Sleep(20*time.Millisecond - 1)
		want("just before", "a", 1)
		time.Sleep(time.Nanosecond)
		want("50 ms after the first byte", "a\xe2\x82", 2)
		put("\xac") // too late
		want("the rest", "a€", 3)

		// The time is counted for each character, independently of the timer.
		put("\xc3")
		time.Sleep(40 * time.Millisecond)
		put("\xa9\xc3")
		want("completed", "a€é", 4)
		time.Sleep(49 * time.Millisecond)
		want("49 ms after the second", "a€é", 4)
		l.Append(output.Stderr, []byte("\xf0\x9f"))
		time.Sleep(time.Millisecond)
		want("50 ms after the second", "a€é\xc3", 5)
		time.Sleep(49 * time.Millisecond)
		want("50 ms after the other stream", "a€é\xc3\xf0\x9f", 6)

		// Bytes that cannot become a character are not held back.
		for i, s := range []string{"\xff", "\xc0", "\xe2\x28", "\xf8", "\x80\x80", "\xed\xa0", "\xf4\x90"} {
			put(s)
			if got := l.Last(); got != int64(7+i) {
				t.Errorf("%q: last is %d, want %d", s, got, 7+i)
			}
			l.Read(0, output.MaxRecord, nil)
		}
	})
}

func TestNothingIsHeldBeyondTheEnd(t *testing.T) {
	ends := map[string]func(*output.Log){
		"mark":    func(l *output.Log) { l.Mark() },
		"close":   func(l *output.Log) { l.Close() },
		"release": func(l *output.Log) { l.Release() },
	}
	for name, end := range ends {
		synctest.Test(t, func(t *testing.T) {
			l := newLog(1 << 20)
			l.Append(output.Stderr, []byte("\xe2\x82"))
			time.Sleep(time.Millisecond)
			l.Append(output.Stdout, []byte("\xc3"))
			free := l.Reserve(output.Stdout)
			woken := make(chan struct{})
			go func() {
				defer close(woken)
				_ = l.Wait(t.Context(), 0)
			}()
			synctest.Wait()
			end(l)
			<-woken
			recs, data, _ := l.Read(0, output.MaxRecord, nil)
			want := "[{1 stderr 0 2 false} {2 stdout 0 1 false}]"
			if name == "release" {
				want = "[{1 stderr 0 2 true} {2 stdout 0 1 true}]"
			} else if string(data) != "\xe2\x82\xc3" {
				t.Errorf("%s: %q", name, data)
			}
			if fmt.Sprint(recs) != want {
				t.Errorf("%s: %v, want %s", name, recs, want)
			}
			l.Commit(output.Stdout, copy(free, "\xa9!"))
			if got, want := l.Bytes(output.Stdout), int64(3); name != "close" && got != want {
				t.Errorf("%s: %d bytes after more, want %d", name, got, want)
			}
			if got, _ := l.Result(output.Stdout, 100); name == "mark" && string(got) != "é!" {
				t.Errorf("%s: %q after more", name, got)
			}
			l.Close()
		})
	}
}

// The timer publishes while the writer has reserved space, in every kind of page.
func TestHeldBytesArePublishedBetweenReserveAndCommit(t *testing.T) {
	for before := 0; before < 66_000/40; before += 1 + before/40 {
		synctest.Test(t, func(t *testing.T) {
			l := newLog(1 << 20)
			want := append(pattern(0, before*40), "\xe2\x82"...)
			l.Append(output.Stdout, want)
			l.Read(0, output.MaxRecord, nil) // so that the next bytes are a new record
			l.Append(output.Stderr, []byte("x"))
			free := l.Reserve(output.Stdout)
			time.Sleep(time.Second)
			synctest.Wait()
			n := copy(free, pattern(7, 1+before*13%len(free)))
			l.Commit(output.Stdout, n)
			want = append(want, pattern(7, n)...)
			if got, _ := l.Result(output.Stdout, 1<<20); !bytes.Equal(got, want) {
				t.Fatalf("%d bytes before: wrong bytes", before*40)
			}
			l.Close()
		})
	}
}

// Flush publishes the beginning of a character, and takes no number for itself.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog(1 << 20)
		l.Append(output.Stdout, []byte("a\xc3"))
		l.Read(0, 100, nil) // the next bytes are a new record
		l.Flush()
		l.Flush()
		if recs, data, next := l.Read(1, 100, nil); len(recs) != 1 || string(data) != "\xc3" || next != 2 || l.Last() != 2 {
			t.Errorf("%+v, %q, %d; the last is %d", recs, data, next, l.Last())
		}
		l.Close()
	})
}
