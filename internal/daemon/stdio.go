package daemon

import (
	"errors"
	"io"
	"os"
)

// stdio is a connection made of two streams.
type stdio struct {
	io.ReadCloser
	io.WriteCloser
}

// Output returns the file that the server watches to learn that the client has closed it; nil if the
// second stream is not a file.
func (s stdio) Output() *os.File {
	f, _ := s.WriteCloser.(*os.File)
	return f
}

// Close closes both streams.
func (s stdio) Close() error { return errors.Join(s.ReadCloser.Close(), s.WriteCloser.Close()) }
