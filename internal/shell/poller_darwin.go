package shell

import (
	"time"

	"golang.org/x/sys/unix"
)

// poller waits for several descriptors at once with poll(2), because the Go runtime cannot watch
// FIFOs on macOS. If poll refuses one of the descriptors, as it does with terminals, poller uses
// select(2) for all of them.
type poller struct {
	refused map[int]bool // descriptors that poll refuses
}

func newPoller() (*poller, error) { return &poller{refused: map[int]bool{}}, nil }

// wait fills in the Revents of fds. It skips negative descriptors; a zero deadline means no
// limit.
func (p *poller) wait(fds []unix.PollFd, deadline time.Time) error {
	if len(p.refused) == 0 {
		_, err := unix.Poll(fds, timeout(deadline))
		for _, f := range fds {
			if err == nil && f.Revents&unix.POLLNVAL != 0 {
				p.refused[int(f.Fd)] = true
			}
		}
		if err != nil || len(p.refused) == 0 {
			return err
		}
	}
	return p.selects(fds, deadline)
}

// fdSetSize is the number of descriptors in the set that select takes.
const fdSetSize = 1024

// hangUpEvery is how often poll looks at a descriptor that is only watched for the closing of its
// other end: select cannot wait for that.
const hangUpEvery = 100 * time.Millisecond

// selects is wait with select(2).
func (p *poller) selects(fds []unix.PollFd, deadline time.Time) error {
	var read, write unix.FdSet
	highest := -1
	rest := make([]unix.PollFd, len(fds)) // the descriptors that poll accepts
	wait := time.Duration(-1)
	if !deadline.IsZero() {
		wait = max(time.Until(deadline), 0)
	}
	for i := range fds {
		fds[i].Revents = 0
		rest[i] = fds[i]
		fd := int(fds[i].Fd)
		if fd < 0 {
			continue
		}
		if fd >= fdSetSize {
			return unix.EBADF
		}
		highest = max(highest, fd)
		if fds[i].Events&unix.POLLIN != 0 {
			read.Set(fd)
		}
		if fds[i].Events&unix.POLLOUT != 0 {
			write.Set(fd)
		}
		if fds[i].Events&(unix.POLLIN|unix.POLLOUT) == 0 && (wait < 0 || wait > hangUpEvery) {
			wait = hangUpEvery
		}
		if p.refused[fd] {
			rest[i].Fd = -1
		}
	}
	var limit *unix.Timeval
	if wait >= 0 {
		tv := unix.NsecToTimeval(int64(wait))
		limit = &tv
	}
	if _, err := unix.Select(highest+1, &read, &write, nil, limit); err != nil {
		return err
	}
	if _, err := unix.Poll(rest, 0); err != nil {
		return err
	}
	for i := range fds {
		fd := int(fds[i].Fd)
		switch {
		case fd < 0:
		case !p.refused[fd]:
			fds[i].Revents = rest[i].Revents
		default:
			if fds[i].Events&unix.POLLIN != 0 && read.IsSet(fd) {
				fds[i].Revents |= unix.POLLIN
			}
			if fds[i].Events&unix.POLLOUT != 0 && write.IsSet(fd) {
				fds[i].Revents |= unix.POLLOUT
			}
		}
	}
	return nil
}

// timeout returns the milliseconds until deadline, rounded up, as poll(2) takes them.
func timeout(deadline time.Time) int {
	if deadline.IsZero() {
		return -1
	}
	d := time.Until(deadline)
	if d <= 0 {
		return 0
	}
	return int(min((d+time.Millisecond-1)/time.Millisecond, 1<<30))
}

// forget must be called before a descriptor is closed or given away: its number may be reused.
func (p *poller) forget(fd int) { delete(p.refused, fd) }
func (*poller) close()          {}

// widen does nothing: macOS enlarges a FIFO by itself.
func widen(int) {}
