package shell

import (
	"os"
	"syscall"
)

// Feed carries an Input to a program that no shell runs: it was started with the other
// end of a pipe as its stdin. One goroutine, which ends with the input or with Close.
type Feed struct {
	in   *Input
	file *os.File // our end
	raw  syscall.RawConn
	more chan struct{} // has a value when there is something to do
	done chan struct{} // closed by the goroutine
}

// Feed begins to carry the input, and returns the end of the pipe that the program is
// to read, which is the caller's.
func (in *Input) Feed() (*Feed, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	f := &Feed{in: in, file: w, more: make(chan struct{}, 1), done: make(chan struct{})}
	if f.raw, err = w.SyscallConn(); err == nil {
		err = f.raw.Control(func(fd uintptr) {
			in.mu.Lock()
			in.pipe = fedPipe(int(fd))
			in.mu.Unlock()
		})
	}
	if err != nil {
		r.Close()
		w.Close()
		return nil, nil, err
	}
	go f.run()
	return f, r, nil
}

func (f *Feed) run() {
	defer close(f.done)
	for {
		// Called again whenever there is room in the pipe, until nothing is left.
		_ = f.raw.Write(func(uintptr) bool { return f.in.push() })
		if f.in.letGo(false) {
			f.file.Close()
			return
		}
		<-f.more
	}
}

// Wake is to be called when Input.Write says so.
func (f *Feed) Wake() {
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// Close forgets what the program has not read. It may be called more than once.
func (f *Feed) Close() {
	f.in.letGo(true)
	f.file.Close()
	f.Wake()
	<-f.done
}

// push moves what it can into the pipe and reports whether nothing is left to move.
func (in *Input) push() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.flush()
	return len(in.queue) == 0
}

// letGo gives up the pipe of a Feed when it has got everything, or nobody reads it, or
// by force. It reports whether it did; nobody else uses the descriptor then.
func (in *Input) letGo(force bool) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if force {
		in.drop()
	}
	over := in.ended || in.closed && len(in.queue) == 0
	if over {
		in.pipe.write = -1
	}
	return over
}
