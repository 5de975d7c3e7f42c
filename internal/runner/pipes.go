package runner

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/shell"
)

// pipes are the stdin, stdout and stderr of a program. Its goroutines: one for each output, which
// reads to the end, so that the program never waits for a reader; one that waits for both and
// for the program; and that of the Feed. Close ends them all.
type pipes struct {
	proc  *process.Process
	in    *shell.Input
	feed  *shell.Feed
	out   [2]*os.File // our ends of stdout and stderr
	wrote atomic.Pointer[time.Time]

	readers sync.WaitGroup
	done    chan struct{}
}

// startOnPipes starts a program. Its output goes into log; at most maxInput bytes of input wait
// until the program reads them.
func startOnPipes(spec process.Spec, start func(process.Spec) (*process.Process, error), log *output.Log, maxInput int64) (*pipes, error) {
	p := &pipes{in: shell.NewInput(maxInput, nil), done: make(chan struct{})}
	var theirs []*os.File
	closeAll := func(files []*os.File) {
		for _, f := range files {
			if f != nil {
				f.Close()
			}
		}
	}
	feed, stdin, err := p.in.Feed()
	if err == nil {
		p.feed, theirs = feed, append(theirs, stdin)
		for i := range p.out {
			var w *os.File
			if p.out[i], w, err = os.Pipe(); err != nil {
				break
			}
			theirs = append(theirs, w)
		}
	}
	if err == nil {
		spec.Files, spec.Setsid = theirs, true
		p.proc, err = start(spec)
	}
	closeAll(theirs)
	if err != nil {
		closeAll(p.out[:])
		if p.feed != nil {
			p.feed.Close()
		}
		code := api.CodeShellFailed
		if process.NoRoom(err) {
			code = api.CodeResourcePressure
		}
		return nil, api.Errorf(code, "program %q: %s", spec.Path, err).Because(api.ReasonProgram)
	}
	for i, st := range []output.Stream{output.Stdout, output.Stderr} {
		p.readers.Go(func() { p.read(p.out[i], log, st) })
	}
	go func() {
		p.readers.Wait()
		<-p.proc.Done()
		close(p.done)
	}()
	return p, nil
}

// read moves the output of the program into the log, until no process holds the pipe.
func (p *pipes) read(f *os.File, log *output.Log, st output.Stream) {
	defer f.Close()
	for {
		n, err := f.Read(log.Reserve(st))
		log.Commit(st, n)
		if err != nil {
			return
		}
		now := time.Now()
		p.wrote.Store(&now)
	}
}

// Process is the program.
func (p *pipes) Process() *process.Process { return p.proc }

// Done is closed when the program has ended and its output is in the log.
func (p *pipes) Done() <-chan struct{} { return p.done }

// Close closes the pipes, even if processes still hold the other ends. The program has ended.
func (p *pipes) Close() {
	p.feed.Close()
	for _, f := range p.out {
		f.Close()
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
