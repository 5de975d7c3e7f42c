package ssh

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// The messages of the protocol that a shared ssh connection speaks on its control socket: version 4,
// in OpenSSH since 5.4. See PROTOCOL.mux in the sources of OpenSSH.
const (
	muxVersion = 4

	muxHello      = 0x00000001
	muxNewSession = 0x10000002
	muxAliveCheck = 0x10000004
	muxTerminate  = 0x10000005

	muxOK            = 0x80000001
	muxDenied        = 0x80000002
	muxFailure       = 0x80000003
	muxExit          = 0x80000004
	muxAlive         = 0x80000005
	muxSessionOpened = 0x80000006
)

// maxMuxPacket bounds a packet, as OpenSSH does.
const maxMuxPacket = 256 << 10

// noEscape says that no character of the input is special.
const noEscape = 0xffffffff

// control is a connection to the control socket of a master. It carries at most one session.
type control struct {
	conn *net.UnixConn
}

// refusedError is the answer of a master that does not open a session: usually the server allows no
// more of them on one connection (MaxSessions).
type refusedError struct{ reason string }

func (e *refusedError) Error() string { return e.reason }

// dialControl connects to a control socket and exchanges the hellos, all before the deadline.
func dialControl(path string, deadline time.Time) (*control, error) {
	d := net.Dialer{Deadline: deadline}
	conn, err := d.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	c := &control{conn: conn.(*net.UnixConn)}
	_ = conn.SetDeadline(deadline)
	err = c.send(packet(muxHello, muxVersion))
	if err == nil {
		var p parser
		if p, err = c.receive(); err == nil {
			kind, version := p.uint32(), p.uint32()
			if p.bad || kind != muxHello || version != muxVersion {
				err = fmt.Errorf("the control socket speaks another protocol (message %#x, version %d)", kind, version)
			}
		}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *control) close() { _ = c.conn.Close() }

// alive asks whether the master answers, and returns its process id.
func (c *control) alive() (pid int, err error) {
	p, err := c.ask(packet(muxAliveCheck, 0), muxAlive)
	if err != nil {
		return 0, err
	}
	return int(p.uint32()), nil
}

// terminate ends the master.
func (c *control) terminate() error {
	_, err := c.ask(packet(muxTerminate, 0), muxOK)
	return err
}

// session starts a command on the other machine, with files as its stdin, stdout and stderr. The
// master has copies of the files when session returns. The environment is filtered by SendEnv.
func (c *control) session(command string, env []string, files [3]*os.File) (id uint32, err error) {
	m := packet(muxNewSession, 0)
	m = appendString(m, "")                               // reserved
	for _, word := range []uint32{0, 0, 0, 0, noEscape} { // no terminal, X11, agent or subsystem
		m = binary.BigEndian.AppendUint32(m, word)
	}
	m = appendString(m, "") // the type of the terminal
	m = appendString(m, command)
	for _, kv := range env {
		if len(m)+len(kv) < maxMuxPacket/2 {
			m = appendString(m, kv)
		}
	}
	if err := c.send(m); err != nil {
		return 0, err
	}
	for _, f := range files {
		raw, err := f.SyscallConn()
		if err != nil {
			return 0, err
		}
		var sent error
		if err := raw.Control(func(fd uintptr) {
			_, _, sent = c.conn.WriteMsgUnix([]byte{0}, syscall.UnixRights(int(fd)), nil)
		}); err != nil {
			return 0, err
		}
		if sent != nil {
			return 0, sent
		}
	}
	p, err := c.answer(muxSessionOpened)
	if err != nil {
		return 0, err
	}
	return p.uint32(), nil
}

// exit waits for the end of the session and returns the exit status of its command; false if the
// master closed the connection without one.
func (c *control) exit(session uint32) (status int, ok bool) {
	for {
		p, err := c.receive()
		if err != nil {
			return 0, false
		}
		if kind, id, status := p.uint32(), p.uint32(), p.uint32(); kind == muxExit && id == session && !p.bad {
			return int(status), true
		}
	}
}

func (c *control) ask(m []byte, want uint32) (parser, error) {
	if err := c.send(m); err != nil {
		return parser{}, err
	}
	return c.answer(want)
}

// answer reads the answer to a request and returns the rest of the packet after the request's id.
func (c *control) answer(want uint32) (parser, error) {
	p, err := c.receive()
	if err != nil {
		return p, err
	}
	switch kind, _ := p.uint32(), p.uint32(); {
	case p.bad:
		return p, errors.New("the control socket sent a packet that is too short")
	case kind == want:
		return p, nil
	case kind == muxFailure || kind == muxDenied:
		return p, &refusedError{p.string()}
	default:
		return p, fmt.Errorf("the control socket answered with message %#x instead of %#x", kind, want)
	}
}

func (c *control) send(m []byte) error {
	_, err := c.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(m))), m...))
	return err
}

func (c *control) receive() (parser, error) {
	b, err := readPacket(c.conn)
	return parser{rest: b}, err
}

func readPacket(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxMuxPacket {
		return nil, fmt.Errorf("the control socket sent a packet of %d bytes", size)
	}
	b := make([]byte, size)
	_, err := io.ReadFull(r, b)
	return b, err
}

// packet begins a message with its kind and the following word: the version in a hello, the id of the
// request in others. A connection makes one request at a time, so the id is always the same.
func packet(kind, word uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, kind), word)
}

func appendString(m []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(m, uint32(len(s))), s...)
}

// parser reads the fields of a packet. After a field that is not there, bad is set and every field is
// empty.
type parser struct {
	rest []byte
	bad  bool
}

func (p *parser) uint32() uint32 {
	if len(p.rest) < 4 {
		p.rest, p.bad = nil, true
		return 0
	}
	v := binary.BigEndian.Uint32(p.rest)
	p.rest = p.rest[4:]
	return v
}

func (p *parser) string() string {
	n := p.uint32()
	if uint64(n) > uint64(len(p.rest)) {
		p.rest, p.bad = nil, true
		return ""
	}
	s := string(p.rest[:n])
	p.rest = p.rest[n:]
	return s
}
