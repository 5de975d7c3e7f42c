package archive_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/archive"
	"github.com/trl-dev/trl/internal/export"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
)

// place is where an archive is.
type place struct {
	archive.Config
	said *bytes.Buffer
}

func newPlace(t testing.TB) place {
	keys, err := os.MkdirTemp("/dev/shm", "trl-test-")
	if err != nil {
		t.Skip(err) // nothing is in memory here
	}
	t.Cleanup(func() { os.RemoveAll(keys) })
	said := &bytes.Buffer{}
	dir := t.TempDir()
	return place{archive.Config{Dir: filepath.Join(dir, "past"), KeyDir: filepath.Join(keys, "past"), SpillDir: dir, Logger: slog.New(slog.NewTextHandler(said, nil))}, said}
}

func (p place) open(t testing.TB) *archive.Archive {
	t.Helper()
	a, err := archive.Open(p.Config)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// files lists what is there, by base name.
func (p place) files() (list []string) {
	for _, dir := range []string{p.Dir, p.KeyDir} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			list = append(list, filepath.Base(filepath.Dir(dir))[:3]+"/"+e.Name())
		}
	}
	return list
}

func id(n int) string { return fmt.Sprintf("s-%010x", n) }

// exported makes what a runner exports: a session with commands that wrote size bytes.
func exported(t testing.TB, session string, ended time.Time, sizes ...int) []byte {
	t.Helper()
	var b bytes.Buffer
	result := link.DestroyResult{Info: api.SessionDetails{SessionInfo: api.SessionInfo{SessionID: session, State: api.SessionTerminated, TerminatedAt: &ended, Cause: "over"}}}
	var execs []*export.Exec
	for i, size := range sizes {
		l := output.New(output.NewStore(output.StoreConfig{}), 64<<20)
		l.Append(output.Stdout, text(size))
		x := export.Ended(fmt.Sprintf("x-%s-%d", session[2:], i+1), l, export.Status{Mark: l.Mark()})
		l.Close()
		execs = append(execs, x)
		result.Execs = append(result.Execs, api.ExecInfo{ExecID: x.ID, SessionID: session, State: api.ExecClosed, Outcome: &api.ExecOutcome{StdoutBytes: int64(size)}})
	}
	if err := export.Write(&b, result, execs, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// text is a text that would be found.
func text(n int) []byte {
	p := bytes.Repeat([]byte("a needle in the output, "), n/24+1)
	return p[:n]
}

func add(t testing.TB, a *archive.Archive, session string, export []byte) *archive.Entry {
	t.Helper()
	w, err := a.Create(session)
	if err != nil {
		t.Fatal(err)
	}
	for rest := export; len(rest) > 0; { // in pieces of all sizes
		n := 1 + rand.IntN(min(len(rest), 200_000))
		if _, err := w.Write(rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	e, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// check reads a command in both ways.
func check(t *testing.T, e *archive.Entry, n, size int) {
	t.Helper()
	x := fmt.Sprintf("x-%s-%d", e.ID()[2:], n)
	want := text(size)
	var got []byte
	for after := int64(0); ; {
		r, body, err := e.Read(link.ReadParams{ExecID: x, AfterSeq: after, Limit: 100_000, Wait: true})
		if err != nil {
			t.Fatalf("%s: %v", x, err)
		}
		got = append(got, body...)
		if r.Outcome != nil {
			break
		}
		after = r.Chunks[len(r.Chunks)-1].Seq
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes by number, want %d", x, len(got), size)
	}
	r, body, err := e.Output(link.OutputParams{ExecID: x, Stream: "stdout", Limit: size, Wait: true})
	if err != nil || !r.Complete || !bytes.Equal(body, want) {
		t.Errorf("%s: %d bytes by offset, complete %v, %v", x, len(body), r.Complete, err)
	}
}

func TestAnotherDaemonReadsItAgain(t *testing.T) {
	p := newPlace(t)
	a := p.open(t)
	sizes := []int{0, 5, 64 << 10, 3_000_000}
	for n := range 3 {
		e := add(t, a, id(n), exported(t, id(n), time.Now().Add(-time.Duration(n)*time.Hour), sizes...))
		for i, size := range sizes {
			check(t, e, i+1, size)
		}
	}
	size := a.Size()
	b := p.open(t)
	list := b.Entries()
	if len(list) != 3 || list[0].ID() != id(2) || list[2].ID() != id(0) || b.Size() != size || size < 9_000_000 {
		t.Fatalf("%d sessions of %d bytes, there were 3 of %d", len(list), b.Size(), size)
	}
	for _, e := range list {
		if r := e.Result(); r.Info.Cause != "over" || len(r.Execs) != len(sizes) {
			t.Errorf("%+v", r)
		}
		for i, size := range sizes {
			check(t, e, i+1, size)
		}
		if _, _, err := e.Read(link.ReadParams{ExecID: "x-none"}); err == nil {
			t.Error("a command that is not there")
		}
	}
	b.Clear()
	if left := p.files(); len(left) > 0 || b.Size() != 0 {
		t.Errorf("%d bytes, files %v", b.Size(), left)
	}
}

func TestNothingReadableIsOnTheDisk(t *testing.T) {
	p := newPlace(t)
	a := p.open(t)
	add(t, a, id(1), exported(t, id(1), time.Now(), 1_000_000))
	w, err := a.Create(id(2))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(exported(t, id(2), time.Now(), 1_000_000)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{p.SpillDir, p.KeyDir} {
		err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v %v", path, info.Mode(), err)
			}
			data, err := os.ReadFile(path)
			if err != nil || bytes.Contains(data, []byte("needle")) || bytes.Contains(data, []byte("session_id")) {
				t.Errorf("%s can be read, %v", path, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	w.Abort()
	if left := strings.Join(p.files(), " "); strings.Contains(left, id(2)) {
		t.Errorf("files of one that was given up: %v", left)
	}
}

// What was not completed, or cannot be read, or has no key, goes.
func TestWhatCannotBeReadIsRemoved(t *testing.T) {
	p := newPlace(t)
	a := p.open(t)
	for n := range 13 {
		add(t, a, id(n), exported(t, id(n), time.Now(), 100_000))
	}
	path := func(n int) string { return filepath.Join(p.Dir, id(n)) }
	key := func(n int) string { return filepath.Join(p.KeyDir, id(n)) }
	change := func(path string, change func([]byte) []byte) {
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, change(data), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change(path(1), func(b []byte) []byte { b[len(b)-50] ^= 1; return b })
	change(path(2), func(b []byte) []byte { b[3] ^= 1; return b })
	change(path(3), func(b []byte) []byte { return b[:16+64<<10+16] }) // at the end of a chunk
	change(path(4), func(b []byte) []byte { return b[:len(b)-1] })
	change(path(5), func(b []byte) []byte { return append(b, 0) })
	change(path(6), func(b []byte) []byte { return nil })
	change(key(7), func(b []byte) []byte { b[0] ^= 1; return b })
	change(key(8), func(b []byte) []byte { return b[:31] })
	if err := os.Remove(key(9)); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Rename(path(10), path(10)+".tmp"), // the daemon died before it renamed both files
		os.Rename(key(10), key(10)+".tmp"),
		os.Rename(key(12), key(12)+".tmp"), // or one of them
		os.Rename(path(11), path(99)),      // another name
		os.Rename(key(11), key(99)),
		os.WriteFile(filepath.Join(p.Dir, "stranger"), []byte("x"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b := p.open(t)
	if list := b.Entries(); len(list) != 1 || list[0].ID() != id(0) {
		t.Errorf("%d sessions are left", len(list))
	}
	check(t, b.Entries()[0], 1, 100_000)
	if left := p.files(); len(left) != 2 {
		t.Errorf("files: %v", left)
	}
}

// A chunk that is damaged is noticed when it is read.
func TestDamageIsNoticed(t *testing.T) {
	p := newPlace(t)
	e := add(t, p.open(t), id(1), exported(t, id(1), time.Now(), 1_000_000))
	path := filepath.Join(p.Dir, id(1))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[500_000] ^= 0x80
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, body, err := e.Read(link.ReadParams{ExecID: "x-" + id(1)[2:] + "-1", Limit: 1 << 20}); err == nil || len(body) > 0 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

func TestOldestGoFirst(t *testing.T) {
	p := newPlace(t)
	a := p.open(t)
	var entries []*archive.Entry
	for n := range 260 {
		entries = append(entries, add(t, a, id(n), exported(t, id(n), time.Now(), 1000)))
	}
	if list := a.Entries(); len(list) != 256 || list[0].ID() != id(4) || entries[3].Kept() || !entries[4].Kept() {
		t.Fatalf("%d sessions", len(list))
	}
	each := a.Size() / 256
	a.Shrink(3*each + each/2)
	if list := a.Entries(); len(list) != 252 || list[0].ID() != id(8) {
		t.Errorf("%d sessions", len(list))
	}
	if _, _, err := entries[5].Output(link.OutputParams{ExecID: "x-" + id(5)[2:] + "-1", Stream: "stdout", Limit: 10}); err == nil {
		t.Error("one that is forgotten can be read")
	}
	entries[20].Remove()
	entries[20].Remove()
	a.Shrink(1 << 40)
	if len(a.Entries()) != 0 || a.Size() != 0 {
		t.Errorf("%d bytes stay", a.Size())
	}
	a.Shrink(1)
	if left := p.files(); len(left) > 0 {
		t.Errorf("files: %v", left)
	}
}

// A session can be kept again, by a daemon that does not know whether it was.
func TestTwiceTheSame(t *testing.T) {
	p := newPlace(t)
	add(t, p.open(t), id(1), exported(t, id(1), time.Now(), 100_000))
	a := p.open(t)
	check(t, a.Entries()[0], 1, 100_000)
	e := add(t, a, id(1), exported(t, id(1), time.Now(), 200_000))
	check(t, e, 1, 200_000)
	if list := a.Entries(); len(list) != 1 || a.Size() > 210_000 {
		t.Errorf("%d sessions of %d bytes", len(list), a.Size())
	}
	check(t, p.open(t).Entries()[0], 1, 200_000)
	e.Remove()
	if left := p.files(); len(left) > 0 {
		t.Errorf("files: %v", left)
	}
}

// A second attempt to keep a session that fails, or whose daemon is killed, leaves the first one.
func TestIncompleteSecondAttempt(t *testing.T) {
	p := newPlace(t)
	add(t, p.open(t), id(1), exported(t, id(1), time.Now(), 100_000))
	for _, end := range []func(*archive.Writer){(*archive.Writer).Abort, func(*archive.Writer) {}} {
		a := p.open(t)
		w, err := a.Create(id(1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text(100_000)); err != nil {
			t.Fatal(err)
		}
		end(w)
		check(t, a.Entry(id(1)), 1, 100_000)
	}
	e := p.open(t).Entry(id(1))
	check(t, e, 1, 100_000)
	e.Remove()
	if left := p.files(); len(left) > 0 {
		t.Errorf("files: %v", left)
	}
}

// A second attempt that cannot be completed leaves the first one: its content is damaged, or its key
// cannot be written. If only the new file got its name, nothing is left that cannot be read.
func TestFailedSecondAttempt(t *testing.T) {
	p := newPlace(t)
	key := filepath.Join(p.KeyDir, id(1))
	again := func(a *archive.Archive, export []byte) {
		t.Helper()
		w, err := a.Create(id(1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(export); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Close(); err == nil {
			t.Error("the second attempt succeeded")
		}
	}
	// obstruct makes a directory that no file can replace.
	obstruct := func(path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	a := p.open(t)
	add(t, a, id(1), exported(t, id(1), time.Now(), 100_000))
	first := func() {
		t.Helper()
		for _, a := range []*archive.Archive{a, p.open(t)} {
			if e := a.Entry(id(1)); e == nil {
				t.Error("the first entry is gone")
			} else {
				check(t, e, 1, 100_000)
			}
		}
	}
	again(a, text(100_000))
	first()
	obstruct(key + ".tmp")
	again(a, exported(t, id(1), time.Now(), 200_000))
	first()
	if err := os.RemoveAll(key + ".tmp"); err != nil {
		t.Fatal(err)
	}
	if left := p.files(); len(left) != 2 {
		t.Errorf("files: %v", left)
	}

	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	obstruct(key)
	again(a, exported(t, id(1), time.Now(), 200_000))
	if left := p.files(); len(left) != 1 || a.Entry(id(1)) != nil || a.Size() != 0 {
		t.Errorf("files: %v, an archive of %d bytes", left, a.Size())
	}
}

// Many readers of more commands than are held at once, while sessions are forgotten.
func TestManyReaders(t *testing.T) {
	p := newPlace(t)
	a := p.open(t)
	var entries []*archive.Entry
	sizes := []int{10, 300_000, 100, 200_000, 5}
	for n := range 8 {
		entries = append(entries, add(t, a, id(n), exported(t, id(n), time.Now(), sizes...)))
	}
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(n), 1))
			for range 30 {
				i := rnd.IntN(len(sizes))
				check(t, entries[rnd.IntN(6)], i+1, sizes[i])
			}
		})
	}
	wg.Go(func() {
		for _, e := range entries[6:] {
			for i, size := range sizes {
				check(t, e, i+1, size)
			}
			e.Remove()
		}
	})
	wg.Wait()
	a.Clear()
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		if to, _ := os.Readlink(fd); strings.HasPrefix(to, p.SpillDir) {
			t.Errorf("%s is still open", to)
		}
	}
}

// Where nothing is in memory, the key stays in the process.
func TestWithoutADirectoryInMemory(t *testing.T) {
	p := newPlace(t)
	p.KeyDir = filepath.Join(t.TempDir(), "keys")
	a := p.open(t)
	if archive.InMemory(p.KeyDir) {
		t.Skip("temporary files are in memory here")
	}
	e := add(t, a, id(1), exported(t, id(1), time.Now(), 1000))
	check(t, e, 1, 1000)
	if _, err := os.Stat(p.KeyDir); err == nil {
		t.Error("there is a key on the disk")
	}
	// The program that replaces this one gets the keys.
	p.Keys = a.Keys()
	if b := p.open(t); len(b.Entries()) != 1 {
		t.Error("the next program cannot read it")
	} else {
		check(t, b.Entries()[0], 1, 1000)
	}
	p.Keys = nil
	if b := p.open(t); len(b.Entries()) != 0 {
		t.Error("another process can read it")
	}
}

func FuzzSealed(f *testing.F) {
	f.Add([]byte("hello"), uint16(3), uint16(2))
	f.Add(bytes.Repeat([]byte("x"), 70_000), uint16(65_000), uint16(5000))
	f.Add(bytes.Repeat([]byte("y"), 64<<10), uint16(65_535), uint16(1))
	f.Add([]byte{}, uint16(0), uint16(1))
	f.Fuzz(func(t *testing.T, text []byte, from, n uint16) {
		sealed := archive.Seal(text)
		if sealed == nil {
			t.Fatal("not sealed")
		}
		p := make([]byte, n)
		got, err := archive.Unseal(sealed, p, int64(from))
		want := text[min(int(from), len(text)):]
		want = want[:min(len(want), int(n))]
		switch {
		case int(from) > len(text):
			if err == nil {
				t.Error("read behind the end")
			}
		case !bytes.Equal(p[:got], want) || (err != nil) != (got < int(n)) || err != nil && err != io.EOF:
			t.Errorf("%d bytes, want %d, %v", got, len(want), err)
		}
		if len(sealed) > 16 { // any change is noticed, wherever it is
			i := 16 + int(from)%(len(sealed)-16)
			sealed[i] ^= 1 | byte(n)
			all := make([]byte, len(text)+1)
			if _, err := archive.Unseal(sealed, all, 0); len(text) > 0 && (err == nil || err == io.EOF) {
				t.Errorf("a change of byte %d is not noticed", i)
			}
		}
	})
}
