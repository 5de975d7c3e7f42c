package shell

import (
	"os"
	"syscall"
)

// Feed writes an Input to the stdin of a program that runs without a shell. The stdin is a pipe
// from the start of the program. Feed has one goroutine, which ends with the input or with Close.
type Feed struct {
	in   *Input
	file *os.File // the writing end
	raw  syscall.RawConn
	more chan struct{} // has a value when there is more to write or to close
	done chan struct{} // closed when the goroutine ends
}

// Feed starts writing the input into a pipe. It returns the reading end, which the caller gives
// to the program and closes.
func (in *Input) Feed() (*Feed, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	f, err := in.FeedTo(w)
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	return f, r, nil
}

// FeedTo starts writing the input to w, which is closed after it.
func (in *Input) FeedTo(w *os.File) (f *Feed, err error) {
	f = &Feed{in: in, file: w, more: make(chan struct{}, 1), done: make(chan struct{})}
	if f.raw, err = w.SyscallConn(); err == nil {
		err = f.raw.Control(func(fd uintptr) {
			in.mu.Lock()
			in.pipe = fedPipe(int(fd))
			in.mu.Unlock()
		})
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	go f.run()
	return f, nil
}

func (f *Feed) run() {
	defer close(f.done)
	for {
		// The runtime calls the function again when the pipe has room, until it returns true.
		_ = f.raw.Write(func(uintptr) bool { return f.in.push() })
		if f.in.releasePipe(false) {
			f.file.Close()
			return
		}
		<-f.more
	}
}

// Wake makes the goroutine look at the input again. Call it when Input.Write returns wake.
func (f *Feed) Wake() {
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// Close discards the input that is not in the pipe yet, and closes the pipe. It may be called
// more than once.
func (f *Feed) Close() {
	f.in.releasePipe(true)
	f.file.Close()
	f.Wake()
	<-f.done
}

// push moves as much input as possible into the pipe, and reports whether none is left.
func (in *Input) push() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.flushLocked()
	return len(in.queue) == 0
}

// releasePipe gives up the pipe of a Feed if the pipe has all of the input or has no reader, or
// if force is set. It reports whether it did; then the Input no longer uses the descriptor.
func (in *Input) releasePipe(force bool) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if force {
		in.dropLocked()
	}
	over := in.ended || in.closed && len(in.queue) == 0
	if over {
		in.pipe.write = -1
	}
	return over
}
