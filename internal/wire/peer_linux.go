package wire

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Peer is the process at the other end of a unix socket. For a client, this is the process that
// listens.
type Peer struct{ UID, PID int }

// PeerOf asks the kernel which process is at the other end.
func PeerOf(conn *net.UnixConn) (Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return Peer{}, err
	}
	if credErr != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", credErr)
	}
	return Peer{UID: int(cred.Uid), PID: int(cred.Pid)}, nil
}
