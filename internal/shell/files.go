package shell

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// makeDir creates the private directory and its files. It may be called again when a command has
// deleted the directory, even while that command runs: the FIFOs of its output are open and no
// longer need their names.
func (s *Shell) makeDir() error {
	if err := os.MkdirAll(s.dir.path, 0o700); err != nil {
		return err
	}
	var err error
	if s.status, err = s.status.open(s.dir.path+"/s", s.cfg.Isolated); err != nil {
		return err
	}
	if s.state, err = s.state.open(s.dir.path+"/x", s.cfg.Isolated); err != nil {
		return err
	}
	s.dir.statusPath, s.dir.statePath = s.status.path, s.state.path
	s.commandFile.close()
	s.wrapperFile.close()
	if s.commandFile, err = openScript(s.dir.command()); err != nil {
		return err
	}
	if s.wrapperFile, err = openScript(s.dir.wrapper()); err != nil {
		return err
	}
	s.lastFile = 0
	return writeFile(s.dir.dumpFile(), []byte(s.dialect.dump(s.dir)))
}

// script is a file in the private directory that the shell sources. The file stays open, and its
// text is removed after use. It is never empty then: ext4 writes a file that has been emptied to
// the disk as soon as it is closed, and every shell that sources the script closes it.
type script struct {
	file *os.File
	size int
}

func openScript(path string) (script, error) {
	f, err := create(path)
	return script{file: f}, err
}

// create makes a file in the private directory, or empties it. In an isolated session whose files are
// all, a process can put a file of its own there. A link must not lead to a file that is hidden from the
// session, hence O_NOFOLLOW; opening a FIFO must not block, hence O_NONBLOCK. script.put cannot write to
// a FIFO, because WriteAt needs a regular file.
func create(path string) (*os.File, error) {
	const flags = os.O_RDWR | os.O_CREATE | os.O_TRUNC | unix.O_NOFOLLOW | unix.O_NONBLOCK
	f, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, unix.ELOOP) {
		_ = os.Remove(path)
		f, err = os.OpenFile(path, flags, 0o600)
	}
	return f, err
}

// writeFile writes a file in the private directory.
func writeFile(path string, data []byte) error {
	f, err := create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// put replaces the script's text; "" removes it.
func (f *script) put(text string) error {
	if text == "" {
		if f.size <= 1 {
			return nil
		}
		text = "\n"
	}
	if _, err := f.file.WriteAt([]byte(text), 0); err != nil {
		_ = f.file.Truncate(0)
		f.size = 0
		return err
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
