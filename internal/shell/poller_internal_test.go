package shell

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Both ways of waiting, for less than a millisecond and for longer, report the same.
func TestPollerWait(t *testing.T) {
	p, err := newPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	var full, empty, hungUp [2]int
	for _, fds := range []*[2]int{&full, &empty, &hungUp} {
		if err := unix.Pipe(fds[:]); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fds[0])
	}
	defer unix.Close(full[1])
	defer unix.Close(empty[1])
	unix.Close(hungUp[1])
	if _, err := unix.Write(full[1], []byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []time.Duration{-time.Second, 0, 300 * time.Microsecond, 20 * time.Millisecond} {
		fds := []unix.PollFd{
			{Fd: int32(full[0]), Events: unix.POLLIN},
			{Fd: -1, Events: unix.POLLIN},
			{Fd: int32(empty[0]), Events: unix.POLLIN},
			{Fd: int32(hungUp[0]), Events: unix.POLLIN},
		}
		if err := p.wait(fds, time.Now().Add(limit)); err != nil {
			t.Fatalf("%s: %v", limit, err)
		}
		if fds[0].Revents&unix.POLLIN == 0 || fds[1].Revents != 0 || fds[2].Revents != 0 || fds[3].Revents&unix.POLLHUP == 0 {
			t.Errorf("%s: %+v", limit, fds)
		}
		if err := p.wait(fds[2:3], time.Now().Add(limit)); err != nil || fds[2].Revents != 0 {
			t.Errorf("%s: nothing to read: %v, %+v", limit, err, fds[2])
		}
	}
}
