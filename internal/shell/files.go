package shell

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// makeDir fills the private directory with the FIFOs and scripts that last as
// long as the shell. It may be called again when a command has deleted them.
func (s *Shell) makeDir() error {
	if err := os.MkdirAll(string(s.dir), 0o700); err != nil {
		return err
	}
	s.closeFD(&s.statusFD)
	s.closeFD(&s.stateFD)
	var err error
	if s.statusFD, err = openChannel(s.dir.status()); err != nil {
		return err
	}
	if s.stateFD, err = openChannel(s.dir.state()); err != nil {
		return err
	}
	s.statusBuf, s.stateBuf = nil, nil
	s.outPath, s.errPath = "", ""
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

// openChannel makes a FIFO and opens its reading end. We are a writer too, so
// that it never ends.
func openChannel(path string) (int, error) {
	os.Remove(path)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return -1, fmt.Errorf("make %s: %w", path, err)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", path, err)
	}
	return fd, nil
}

// openOutput opens the reading end of an output FIFO, a new one when the last
// is still held by somebody.
func (s *Shell) openOutput(path *string) (int, error) {
	if *path == "" {
		s.outputs++
		p := s.dir.output(s.outputs)
		if err := unix.Mkfifo(p, 0o600); err != nil {
			return -1, err
		}
		*path = p
	}
	fd, err := unix.Open(*path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		*path = ""
	}
	return fd, err
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
