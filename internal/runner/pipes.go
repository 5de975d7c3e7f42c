package runner

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/shell"
)

// pipes are the stdin, stdout and stderr of a program: three pipes, or a pseudo-terminal without
// a screen. Its goroutines: one for each output, which reads to the end; one that waits for these
// and for the program; and that of the Feed. Close ends them all.
type pipes struct {
	pipesConfig
	proc  *process.Process
	feed  *shell.Feed     // nil without input
	tty   *process.PTY    // nil for pipes
	out   []*outlet       // stdout and stderr; none with a pseudo-terminal
	room  []chan struct{} // for each output, has a value when full may have changed
	wrote atomic.Pointer[time.Time]

	readers sync.WaitGroup
	done    chan struct{}
}

// pipesConfig says what to start and where its output goes.
type pipesConfig struct {
	spec  process.Spec
	start func(process.Spec) (*process.Process, error)
	log   *output.Log
	in    *shell.Input // nil: stdin is empty
	merge bool         // stderr goes where stdout goes
	pty   *api.PTYSize // the size of a pseudo-terminal that replaces the pipes; nil for pipes
	// full reports whether the output must not be read for now, so that the program waits; nil:
	// never. It is called at least once a second.
	full func() bool
}

// startOnPipes starts a program.
func startOnPipes(c pipesConfig) (*pipes, error) {
	p := &pipes{pipesConfig: c, done: make(chan struct{})}
	theirs, err := p.connect()
	if err == nil {
		c.spec.Files, c.spec.Setsid, c.spec.Setctty = theirs, true, p.tty != nil
		p.proc, err = c.start(c.spec)
	}
	for i, f := range theirs {
		if i == 0 || f != theirs[i-1] {
			f.Close()
		}
	}
	if err != nil {
		for _, o := range p.out {
			o.file.Close()
		}
		p.release()
		code := api.CodeShellFailed
		if process.NoRoom(err) {
			code = api.CodeResourcePressure
		}
		return nil, api.Errorf(code, "program %q: %s", c.spec.Path, err).Because(api.ReasonProgram)
	}
	for range max(len(p.out), 1) {
		p.room = append(p.room, make(chan struct{}, 1))
	}
	if p.tty != nil {
		p.readers.Go(p.readTerminal)
		go func() {
			<-p.proc.Done()
			p.tty.Interrupt()
		}()
	}
	for i, o := range p.out {
		p.readers.Go(func() { p.read(o, p.room[i]) })
	}
	go func() {
		p.readers.Wait()
		<-p.proc.Done()
		p.release()
		close(p.done)
	}()
	return p, nil
}

// connect makes the pipes or the pseudo-terminal, and returns the program's ends.
func (p *pipes) connect() (theirs []*os.File, err error) {
	if p.pty != nil {
		return p.connectTerminal()
	}
	var stdin *os.File
	if p.in == nil {
		stdin, err = os.Open(os.DevNull)
	} else {
		p.feed, stdin, err = p.in.Feed()
	}
	if err != nil {
		return nil, err
	}
	theirs = []*os.File{stdin}
	for len(theirs) < 3 {
		if len(theirs) == 2 && p.merge {
			return append(theirs, theirs[1]), nil
		}
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, err
		}
		theirs = append(theirs, w)
		o, err := newOutlet(r, p.log, output.Stream(len(p.out)))
		p.out = append(p.out, o)
		if err != nil {
			return theirs, err
		}
	}
	return theirs, nil
}

func (p *pipes) connectTerminal() (theirs []*os.File, err error) {
	if p.tty, err = process.OpenPTY(); err != nil {
		return nil, err
	}
	if err = p.tty.Resize(p.pty.Cols, p.pty.Rows); err != nil {
		return nil, err
	}
	keys, err := p.tty.Keyboard()
	if err != nil {
		return nil, err
	}
	if p.feed, err = p.in.FeedTo(keys); err != nil {
		return nil, err
	}
	slave, err := p.tty.Slave()
	if err != nil {
		return nil, err
	}
	return []*os.File{slave, slave, slave}, nil
}

// release closes the input and the pseudo-terminal.
func (p *pipes) release() {
	if p.feed != nil {
		p.feed.Close()
	}
	if p.tty != nil {
		p.tty.Close()
	}
}

// read moves the output of the program into the log, until no process holds the pipe.
func (p *pipes) read(o *outlet, room <-chan struct{}) {
	defer o.file.Close()
	for {
		p.awaitRoom(room)
		if o.take() != nil {
			return
		}
		p.noteOutput()
	}
}

// readTerminal moves the output of the program into the log. The pseudo-terminal is hung up when
// the program ends, so nothing follows then.
func (p *pipes) readTerminal() {
	buf := make([]byte, 8<<10)
	for {
		p.awaitRoom(p.room[0])
		n, err := p.tty.Read(buf)
		p.takeTyped(buf[:n])
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			for {
				n, err := p.tty.TryRead(buf)
				if n == 0 || err != nil {
					p.log.Flush() // an unfinished character will not be finished
					return
				}
				p.takeTyped(buf[:n])
			}
		case errors.Is(err, os.ErrClosed):
			return
		default: // the program has hung up its terminal, or has just ended
			happens(p.proc.Done(), settleTime)
			_ = p.tty.Reopen() // if it fails, the next read fails too
		}
	}
}

func (p *pipes) takeTyped(data []byte) {
	if len(data) > 0 {
		p.log.Append(output.Stdout, data)
		p.noteOutput()
	}
}

func (p *pipes) noteOutput() {
	now := time.Now()
	p.wrote.Store(&now)
}

// drained reports whether nothing is left to read for now.
func (p *pipes) drained() bool { return p.rest()() }

// rest returns a function that reports whether everything that has been written to the pipes by now
// is in the log. A pseudo-terminal is read to its end, which comes soon after that of the program.
func (p *pipes) rest() (isRead func() bool) {
	upTo := make([]int64, len(p.out))
	for i, o := range p.out {
		_, upTo[i] = o.progress()
	}
	return func() bool {
		for i, o := range p.out {
			if taken, _ := o.progress(); taken < upTo[i] {
				return false
			}
		}
		return p.tty == nil || happened(p.done)
	}
}

// awaitRoom waits while the log is full for the reader of the output, unless the program has
// ended: then only the rest in the pipe is left.
func (p *pipes) awaitRoom(room <-chan struct{}) {
	for p.full != nil && p.full() {
		look := time.NewTimer(time.Second)
		select {
		case <-room:
		case <-look.C:
		case <-p.proc.Done():
			look.Stop()
			return
		}
		look.Stop()
	}
}

// wake makes the readers call full again, and the Feed look at its input.
func (p *pipes) wake() {
	for _, room := range p.room {
		select {
		case room <- struct{}{}:
		default:
		}
	}
	if p.feed != nil {
		p.feed.Wake()
	}
}

// Process is the program.
func (p *pipes) Process() *process.Process { return p.proc }

// Done is closed when the program has ended and its output is in the log.
func (p *pipes) Done() <-chan struct{} { return p.done }

// Close reads what is in the pipes and closes them, even if processes still hold the other ends. The
// program has ended.
func (p *pipes) Close() {
	for isRead := p.rest(); !isRead(); {
		happens(p.done, settleTime)
	}
	p.release()
	for _, o := range p.out {
		o.file.Close()
	}
	<-p.done
}

// LastOutput returns when the program last wrote; zero if it never did.
func (p *pipes) LastOutput() time.Time {
	if at := p.wrote.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// blockedReader looks for one of the processes that is blocked reading the input.
func (p *pipes) blockedReader(list func() []process.Info) (shell.Reader, bool, error) {
	if err := process.CanSeeReads(p.proc.PID); err != nil {
		return shell.Reader{}, false, err
	}
	var pipe process.FileID
	var taken int64
	if p.in != nil {
		pipe, taken = p.in.Drained()
	}
	if p.tty != nil && (pipe == process.FileID{} || p.tty.Unread() > 0) {
		return shell.Reader{}, false, nil
	}
	for _, in := range list() {
		var r process.Reader
		var ok bool
		if p.tty != nil {
			r, ok = process.TerminalReader(in.PID, p.tty.Device())
		} else {
			r, ok = process.BlockedReader(in.PID, pipe, true)
		}
		if ok {
			return shell.Reader{Reader: r, Taken: taken}, true, nil
		}
	}
	return shell.Reader{}, false, nil
}
