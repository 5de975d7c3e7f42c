package dialogue

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sort"
	"time"
)

// moment is an entry of times.N: at this time stdout and stdin had these lengths, and one of them
// was about to grow. Entries have the same length, so that one can be found without reading all.
type moment struct {
	stdout, stdin int64
	at            time.Time
}

// momentBytes is the length of an entry: two numbers, and a time in UTC as it encodes itself.
const momentBytes = 2*8 + 15

// noteTime appends a moment. The times are for people alone, so a fault is not reported.
func (r *record) noteTime(stdout int64) {
	stdin, err := r.stdin.Seek(0, io.SeekEnd)
	if err != nil {
		return
	}
	end, err := r.times.Seek(0, io.SeekEnd)
	if err != nil {
		return
	}
	at, err := time.Now().UTC().MarshalBinary()
	if err != nil {
		return
	}
	b := binary.BigEndian.AppendUint64(make([]byte, 0, momentBytes), uint64(stdout))
	b = append(binary.BigEndian.AppendUint64(b, uint64(stdin)), at...)
	_, _ = r.times.WriteAt(b, end-end%momentBytes) // over a part that a full disk left
}

// moments reads times.N.
type moments struct {
	file *os.File
	n    int
}

// openMoments opens times.N. An earlier version wrote none: then there are no moments.
func (r *record) openMoments(epoch int) (*moments, error) {
	f, err := os.Open(r.path("times", epoch))
	if errors.Is(err, os.ErrNotExist) {
		return &moments{}, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &moments{f, int(info.Size() / momentBytes)}, nil
}

func (m *moments) close() {
	if m.file != nil {
		m.file.Close()
	}
}

func (m *moments) get(i int) (got moment) {
	var b [momentBytes]byte
	if _, err := m.file.ReadAt(b[:], int64(i)*momentBytes); err != nil {
		return got
	}
	_ = got.at.UnmarshalBinary(b[16:]) // the zero time, if another version wrote it
	got.stdout, got.stdin = int64(binary.BigEndian.Uint64(b[:])), int64(binary.BigEndian.Uint64(b[8:]))
	return got
}

// first returns the first moment of which fits is true, as it is of all later ones.
func (m *moments) first(fits func(moment) bool) int {
	return sort.Search(m.n, func(i int) bool { return fits(m.get(i)) })
}

// of returns the moment in which a byte was received or sent. ok is false if it is not known.
func (m *moments) of(stream string, offset int64) (got moment, ok bool) {
	i := m.first(func(at moment) bool {
		if stream == streamStdin {
			return at.stdin > offset
		}
		return at.stdout > offset
	})
	if i == 0 {
		return moment{}, false
	}
	return m.get(i - 1), true
}

// stdinAt returns the length of stdin when stdout first had reached an offset; -1 if it has not.
func (m *moments) stdinAt(stdout int64) int64 {
	i := m.first(func(at moment) bool { return at.stdout >= stdout })
	if i == m.n {
		return -1
	}
	return m.get(i).stdin
}
