package shell

import "golang.org/x/sys/unix"

// feed writes everything to a pipe that blocks, and closes it.
func feed(w int, queue [][]byte) {
	defer unix.Close(w)
	for _, data := range queue {
		for len(data) > 0 {
			n, err := unix.Write(w, data[:min(len(data), 64<<10)])
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return // EPIPE: nobody reads any more
			}
			data = data[n:]
		}
	}
}
