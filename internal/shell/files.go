package shell

import (
	"os"

	"golang.org/x/sys/unix"
)

// makeDir fills the private directory. It may be called again when a command has
// deleted it, also while that runs: the FIFOs of its output need no names any more.
func (s *Shell) makeDir() error {
	if err := os.MkdirAll(s.dir.path, 0o700); err != nil {
		return err
	}
	var err error
	if s.status, err = s.status.open(s.dir.path + "/s"); err != nil {
		return err
	}
	if s.state, err = s.state.open(s.dir.path + "/x"); err != nil {
		return err
	}
	s.dir.back, s.dir.state = s.status.path, s.state.path
	s.commandFile.close()
	s.wrapperFile.close()
	if s.commandFile, err = openScript(s.dir.command()); err != nil {
		return err
	}
	if s.wrapperFile, err = openScript(s.dir.wrapper()); err != nil {
		return err
	}
	s.lastFile = 0
	return os.WriteFile(s.dir.dumpFile(), []byte(s.dialect.dump(s.dir)), 0o600)
}

// fifo is an output FIFO that commands use one after another, until one of them
// leaves somebody behind who holds it.
type fifo struct {
	path  string // "" when a new one is needed
	read  int
	write int // our own writing end, open while a command runs: no end of file, no wake-ups before its end
}

// open gets the FIFO ready for a command.
func (f *fifo) open(path string) (err error) {
	if f.path == "" {
		if err := unix.Mkfifo(path, 0o600); err != nil {
			return err
		}
		if f.read, err = unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		f.path = path
	}
	f.write, err = unix.Open(f.path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	return err
}

// forget lets go of the FIFO; whoever holds its reading end keeps it.
func (f *fifo) forget() {
	if f.path != "" {
		os.Remove(f.path)
	}
	f.path = ""
}

// discard also closes the reading end.
func (f *fifo) discard() {
	if f.path != "" {
		unix.Close(f.read)
	}
	f.forget()
}

// discardOutputs drops both FIFOs.
func (s *Shell) discardOutputs() {
	for _, f := range []*fifo{&s.out, &s.err} {
		if f.path != "" {
			s.poller.forget(f.read)
		}
		f.discard()
	}
}

// script is a file of the private directory that the shell sources. It stays
// open and is emptied after use: a rewrite by O_TRUNC would wait for the disk
// where there is no tmpfs.
type script struct {
	file *os.File
	size int
}

func openScript(path string) (script, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	return script{file: f}, err
}

// put replaces the text.
func (f *script) put(text string) error {
	if len(text) > 0 {
		if _, err := f.file.WriteAt([]byte(text), 0); err != nil {
			_ = f.file.Truncate(0)
			f.size = 0
			return err
		}
	}
	if len(text) < f.size {
		if err := f.file.Truncate(int64(len(text))); err != nil {
			return err
		}
	}
	f.size = len(text)
	return nil
}

func (f *script) close() {
	if f.file != nil {
		f.file.Close()
	}
}
