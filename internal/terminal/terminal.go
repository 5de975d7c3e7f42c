// Package terminal owns a program on a pseudo-terminal: its screen, its output, its
// size, its input and its recording.
//
// The program's output goes into an output.Log and into a vt.Terminal, one after the other,
// and the number of bytes in both is the offset of the terminal. Snapshots and changes of
// size carry their offset, so a reader that continues the log from there sees exactly what
// follows. Readers pull, so viewers and waiters never slow the program down.
package terminal

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/recent"
	"github.com/trl-dev/trl/internal/terminal/vt"
)

// Config is what a Terminal needs.
type Config struct {
	Name       string   // used in errors, such as: session "s-1"
	Path       string   // the program, found by the caller
	Args       []string // with the program's own name first
	Env        []string // all of it, as KEY=VALUE
	Dir        string   // where it starts
	CgroupFD   int      // see process.Spec
	Cols, Rows int
	Scrollback int         // lines kept above the screen
	Version    string      // of TRL, for programs that ask the terminal
	Log        *output.Log // takes the program's output, as output.Stdout
	MaxInput   int64       // bytes that may wait until the program reads them; 0: no bound

	Record      io.WriteCloser // takes an asciicast and is closed after it; nil: none
	RecordInput bool           // the recording has the input too
	RecordLimit int64          // of the recording, in bytes; 0: none
	Title       string         // the command line, for the recording

	// Start starts a child, as process.Reaper does.
	Start func(process.Spec) (*process.Process, error)
	// Changed, if set, is called when Info has changed, at most ten times a second. Warn, if set,
	// is called for problems that no caller gets as an error. Close waits for a call that is
	// under way.
	Changed func()
	Warn    func(error)
}

// Terminal is a program on a pseudo-terminal. It is safe for concurrent use. The last screen can
// be read after Close.
//
// Its goroutines: one reads the output of the program, one waits for the end of the program, one
// writes input while the program does not read, and one writes the recording. Close ends them
// all.
type Terminal struct {
	config   Config
	pty      *process.PTY
	program  *process.Process
	keyboard keyboard
	news     notices
	recorder *recorder // nil: none
	wrote    atomic.Pointer[time.Time]
	huge     atomic.Bool // the screen has more than hugeCells

	closing    chan struct{} // closed by the first Close
	closeOnce  sync.Once
	done       chan struct{} // closed at the end of output
	goroutines sync.WaitGroup

	mu       sync.Mutex
	screen   screen        // guarded by mu
	offset   int64         // guarded by mu; bytes in the log and on the screen
	tail     charTail      // guarded by mu; the last of these bytes
	output   time.Time     // guarded by mu; when the last output came
	typed    time.Time     // guarded by mu; when the last input came
	resizes  resizes       // guarded by mu
	complete bool          // guarded by mu; no output follows
	wake     chan struct{} // guarded by mu; closed by the next change; nil without waiters
	shown    shown         // guarded by mu; at the last notice
}

// shown are the values whose changes cause a notice.
type shown struct {
	cols, rows int
	title      string
	alternate  bool
}

// Start starts the program. The error is SHELL_FAILED.
func Start(c Config) (*Terminal, error) {
	pty, err := process.OpenPTY()
	if err != nil {
		return nil, c.failed("make a pseudo-terminal", err)
	}
	t := &Terminal{config: c, pty: pty, closing: make(chan struct{}), done: make(chan struct{})}
	t.screen = screen{log: c.Log, warn: t.news.notify, changed: time.Now(), show: (*vt.Terminal).Write}
	t.screen.new = func(cols, rows int) *vt.Terminal {
		return vt.New(vt.Config{Cols: cols, Rows: rows, Scrollback: c.Scrollback, Version: c.Version})
	}
	t.screen.vt = t.screen.new(c.Cols, c.Rows)
	t.shown = t.shownLocked()
	t.huge.Store(c.Cols*c.Rows > hugeCells)
	t.keyboard = keyboard{pty: pty, limit: c.MaxInput, name: c.Name, goroutines: &t.goroutines, writes: recent.New[struct{}](writesKept)}
	t.news.changed, t.news.warn = c.Changed, c.Warn
	if t.program, err = t.start(); err != nil {
		pty.Close()
		return nil, c.failed("start "+c.Path, err)
	}
	if c.Record != nil {
		t.recorder = newRecorder(c, time.Now(), t.news.notify)
	}
	t.goroutines.Go(t.watch)
	t.goroutines.Go(t.read)
	return t, nil
}

func (c *Config) failed(what string, err error) error {
	code := api.CodeShellFailed
	if process.NoRoom(err) {
		code = api.CodeResourcePressure
	}
	return api.Errorf(code, "%s: %s: %s", c.Name, what, err)
}

// start starts the program as the leader of a session that the terminal controls.
func (t *Terminal) start() (*process.Process, error) {
	c := &t.config
	if err := t.pty.Resize(c.Cols, c.Rows); err != nil {
		return nil, err
	}
	slave, err := t.pty.Slave()
	if err != nil {
		return nil, err
	}
	defer slave.Close()
	return c.Start(process.Spec{
		Path: c.Path, Args: c.Args, Env: c.Env, Dir: c.Dir, CgroupFD: c.CgroupFD,
		Files: []*os.File{slave, slave, slave}, Setsid: true, Setctty: true,
	})
}

// Process is the program.
func (t *Terminal) Process() *process.Process { return t.program }

// Done is closed when the program has ended and its output is in the log, or after Close. It
// does not wait for processes that the program left running.
func (t *Terminal) Done() <-chan struct{} { return t.done }

// Close hangs up the pseudo-terminal and waits until the goroutines have ended. A second
// Close only waits.
func (t *Terminal) Close() {
	t.closeOnce.Do(func() {
		close(t.closing)
		<-t.done // read the rest of the output first
		t.pty.Close()
		t.news.close()
	})
	t.goroutines.Wait()
	if t.recorder != nil {
		t.recorder.wait()
	}
}

// Info returns the state of the terminal, without its viewers.
func (t *Terminal) Info() api.TerminalInfo {
	t.mu.Lock()
	s := t.shownLocked()
	t.mu.Unlock()
	info := api.TerminalInfo{Cols: s.cols, Rows: s.rows, Title: s.title, Alternate: s.alternate}
	if t.recorder != nil {
		info.Recording = t.recorder.info()
	}
	return info
}

// LastOutput returns when the program last wrote; zero if it never did.
func (t *Terminal) LastOutput() time.Time {
	if at := t.wrote.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Resize changes the size of the terminal. The present size has no effect.
func (t *Terminal) Resize(cols, rows int) (link.ResizeResult, error) {
	t.mu.Lock()
	if t.complete {
		t.mu.Unlock()
		return link.ResizeResult{}, t.hasEnded()
	}
	at := t.offset - int64(t.tail.unfinished())
	res := link.ResizeResult{Cols: cols, Rows: rows, Offset: at}
	if err := t.setSize(cols, rows); err != nil {
		t.mu.Unlock()
		return link.ResizeResult{}, api.Errorf(api.CodeInternal, "%s: set the size: %s", t.config.Name, err)
	}
	if now := t.shownLocked(); now.cols == cols && now.rows == rows {
		t.mu.Unlock()
		return res, nil
	}
	// An unfinished character is not on the screen yet, so the size may as well have changed
	// before it.
	t.resizes.add(resize{offset: at, cols: cols, rows: rows})
	now := time.Now()
	t.screen.do(t.offset, func(v *vt.Terminal) { v.Resize(cols, rows) })
	if t.recorder != nil {
		t.recorder.resize(now, cols, rows)
	}
	t.unlockChanged(now)
	return res, nil
}

// setSize sets the size of the pseudo-terminal, unless it has that size: the program may have set
// it too.
func (t *Terminal) setSize(cols, rows int) error {
	if c, r, err := t.pty.Size(); err != nil || c == cols && r == rows {
		return err
	}
	return t.pty.Resize(cols, rows)
}

func (t *Terminal) hasEnded() error {
	return api.Errorf(api.CodeSessionTerminated, "%s: the program has ended", t.config.Name)
}

// shownLocked reads the parts of the screen that Info reports.
func (t *Terminal) shownLocked() (s shown) {
	t.screen.do(t.offset, func(v *vt.Terminal) {
		s.cols, s.rows = v.Size()
		s.title, s.alternate = v.Title(), v.Alternate()
	})
	return s
}

// changesLocked returns a channel that the next change closes.
func (t *Terminal) changesLocked() <-chan struct{} {
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return t.wake
}

// unlockChanged releases mu after a change of the screen, wakes the waiters, and answers the
// queries of the program.
func (t *Terminal) unlockChanged(now time.Time) {
	t.screen.note(now)
	var replies []byte
	t.screen.do(t.offset, func(v *vt.Terminal) { replies = v.Replies() })
	wake := t.wake
	t.wake = nil
	s := t.shownLocked()
	news := s != t.shown
	t.shown = s
	t.huge.Store(s.cols*s.rows > hugeCells)
	t.mu.Unlock()
	if wake != nil {
		close(wake)
	}
	if len(replies) > 0 {
		t.keyboard.reply(replies)
	}
	if news {
		t.news.notify(nil)
	}
}
