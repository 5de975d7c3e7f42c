package ui

import "io"

// ReadChunks sends what it reads to chunks, in pieces of at most size bytes, until the reader fails
// or done is closed, and then closes chunks. It is the goroutine that reads a person's keys.
func ReadChunks(from io.Reader, size int, chunks chan<- []byte, done <-chan struct{}) {
	defer close(chunks)
	for {
		b := make([]byte, size)
		n, err := from.Read(b)
		if n > 0 {
			select {
			case chunks <- b[:n]:
			case <-done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}
