package output_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/trl-dev/trl/internal/output"
)

// step does one thing chosen by a, with size b. Small sizes are the common case.
func (m *model) step(a byte, b uint16) {
	st := output.Stream(a & 1)
	switch a >> 1 % 21 {
	case 0, 1, 2:
		m.write(st, int(b%64)+1, false)
	case 3, 4:
		m.write(st, int(b%64)+1, true)
	case 5, 6:
		m.write(st, int(b), false)
	case 7, 8:
		m.write(st, int(b), true)
	case 9, 10, 11:
		m.readers[int(b)%len(m.readers)].read(int(b) * 4)
	case 12:
		m.checkAt(st, int64(b)*int64(len(m.data[st])+2)/65535-1, int(b)%5000)
	case 13:
		m.checkResult(st, int64(b)*4)
	case 14: // a new reader replaces another one
		m.readers[int(b)%len(m.readers)] = &reader{m: m}
	case 15:
		if b%16 == 0 {
			m.markOnce()
		}
	case 16, 17:
		m.readers[int(b)%len(m.readers)].resume(int(b) / len(m.readers))
	case 18:
		m.sleep(time.Duration(b%60) * time.Millisecond)
	case 19:
		m.write(st, int(b%3)+1, b%2 == 0)
	case 20:
		if b%16 == 0 {
			m.log.Trim(int64(b) * 20)
			m.gaps = [2]*[2]int64{}
		}
	}
}

// finish closes the log and makes all readers read to the end. Then it does the same with a log that
// was saved and loaded.
func (m *model) finish() {
	m.markOnce()
	m.close()
	for i, r := range m.readers {
		r.drain(output.MaxRecord * (1 + i))
	}
	m.late()

	var saved bytes.Buffer
	if err := m.log.Save(&saved); err != nil {
		m.t.Fatal(err)
	}
	old := m.log
	saved.WriteString("more")
	loaded, err := output.Load(output.NewStore(output.StoreConfig{MemoryBytes: 100_000, Dir: m.t.TempDir()}), &saved)
	if err != nil {
		m.t.Fatal(err)
	}
	if saved.String() != "more" {
		m.t.Fatalf("Load left %d bytes", saved.Len())
	}
	if m.log = loaded; loaded.Last() != old.Last() || loaded.Mark() != m.mark || !loaded.Closed() {
		m.t.Fatalf("loaded: last %d, mark %d, closed %v", loaded.Last(), loaded.Mark(), loaded.Closed())
	}
	m.gaps = [2]*[2]int64{}
	for _, r := range m.readers {
		r.resume(len(r.seen) / 2)
		r.drain(output.MaxRecord)
	}
	m.late()
	for _, l := range []*output.Log{old, loaded} {
		if l.Release(); kept(l) != 0 {
			m.t.Fatalf("holds %d bytes after Release", kept(l))
		}
	}
}

// late reads the log from its beginning, in every way.
func (m *model) late() {
	r := &reader{m: m}
	r.drain(output.MaxRecord)
	var lost int64
	for st := range output.Stream(2) {
		from, to := m.gone(st)
		lost += to - from
		m.checkResult(st, 1<<20)
	}
	if r.lost != lost {
		m.t.Fatalf("the late reader lost %d bytes, the log %d", r.lost, lost)
	}
}

// texts are the possible sources of a stream: text with all kinds of characters, bytes that are not
// text, text without characters that are held back, and a mixture.
var texts = func() [][]byte {
	r := rand.New(rand.NewPCG(7, 7))
	var text []byte
	for len(text) < 300_000 {
		text = utf8.AppendRune(text, []rune("aé€😀")[r.IntN(4)])
	}
	noise := make([]byte, 300_007)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	mixed := bytes.Clone(text)
	for range 3000 {
		i := r.IntN(len(mixed) - 3)
		copy(mixed[i:], noise[i:i+r.IntN(3)])
	}
	return [][]byte{text, noise, pattern(0, 300_001), mixed}
}()

func TestRandomOperationsAgreeWithModel(t *testing.T) {
	limits := []int64{0, 1, 1000, 20_000, 100_000, 600_000, 1 << 20, 1 << 30}
	for seed := range uint64(48) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			store := output.StoreConfig{}
			if seed%3 > 0 {
				store.MemoryBytes = 50_000 << rnd.IntN(5)
			}
			if seed%3 > 1 {
				store.Dir = t.TempDir()
			}
			log := output.New(output.NewStore(store), limits[seed%uint64(len(limits))])
			m := newModel(t, log, 1+int(seed%5), [2][]byte{texts[rnd.IntN(4)], texts[rnd.IntN(4)]})
			mask := uint16(1)<<(4+rnd.IntN(13)) - 1 // limits the sizes in this run
			for range 600 {
				m.step(byte(rnd.Uint32()), uint16(rnd.Uint32())&mask)
			}
			m.finish()
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzLog(f *testing.F) {
	f.Add(uint32(1000), byte(0), []byte{0, 1, 2, 14, 255, 255, 18, 0, 0, 15, 255, 255, 19, 9, 9})
	f.Add(uint32(600_000), byte(5), bytes.Repeat([]byte{14, 255, 255, 1, 3, 0, 18, 255, 15}, 40))
	f.Add(uint32(0), byte(14), bytes.Repeat([]byte{16, 255, 255, 17, 0, 64, 30, 0, 0, 26, 9, 9}, 20))
	f.Add(uint32(2<<20-1), byte(0x45), bytes.Repeat([]byte{10, 255, 255, 11, 0, 64, 32, 0, 0, 18, 255, 9, 36, 7, 7}, 40))
	f.Fuzz(func(t *testing.T, limit uint32, kind byte, ops []byte) {
		synctest.Test(t, func(t *testing.T) {
			store := output.StoreConfig{MemoryBytes: int64(kind>>6) * 100_000}
			if kind>>4&1 == 0 {
				store.Dir = t.TempDir()
			}
			log := output.New(output.NewStore(store), int64(limit%(2<<20)))
			m := newModel(t, log, 3, [2][]byte{texts[kind%4], texts[kind/4%4]})
			for n := 0; len(ops) >= 3 && n < 200; n++ {
				m.step(ops[0], uint16(ops[1])|uint16(ops[2])<<8)
				ops = ops[3:]
			}
			m.finish()
		})
	})
}
