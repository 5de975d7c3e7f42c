package wire

import "syscall"

// Peer is the process at the other end of a unix socket. For a client, this is the process that
// listens.
type Peer struct{ UID, PID int }

// PeerOf asks the kernel which process is at the other end of a unix socket.
func PeerOf(conn syscall.Conn) (peer Peer, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	if failed := raw.Control(func(fd uintptr) { peer, err = PeerOfFD(int(fd)) }); failed != nil {
		return Peer{}, failed
	}
	return peer, err
}
