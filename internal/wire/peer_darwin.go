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
	var peer Peer
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		var cred *unix.Xucred
		if cred, credErr = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED); credErr != nil {
			return
		}
		peer.UID = int(cred.Uid)
		peer.PID, credErr = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	}); err != nil {
		return Peer{}, err
	}
	if credErr != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", credErr)
	}
	return peer, nil
}
