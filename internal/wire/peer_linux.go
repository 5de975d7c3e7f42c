package wire

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// PeerOfFD is PeerOf for the descriptor of a socket.
func PeerOfFD(fd int) (Peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", err)
	}
	return Peer{UID: int(cred.Uid), PID: int(cred.Pid)}, nil
}
