package wire

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// PeerOfFD is PeerOf for the descriptor of a socket.
func PeerOfFD(fd int) (Peer, error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", err)
	}
	pid, err := unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	if err != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", err)
	}
	return Peer{UID: int(cred.Uid), PID: pid}, nil
}
