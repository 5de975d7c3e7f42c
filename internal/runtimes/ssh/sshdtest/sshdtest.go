// Package sshdtest is for tests alone: it starts a private sshd on loopback, with its own keys, its own
// home directory and any login shell.
package sshdtest

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/testkit"
)

// Options are the choices for a server.
type Options struct {
	// Reaper starts sshd; nil for os/exec, in a process that has no Reaper.
	Reaper *process.Reaper
	// Shell is the login shell; empty for /bin/sh.
	Shell string
	// Config are lines of sshd_config, which override those of this package.
	Config []string
	// Mount is a shell script that changes the mounts for sshd and what it starts, in a mount
	// namespace of their own. $H is the home directory.
	Mount string
}

// Server is an sshd and what a client needs to know about it.
type Server struct {
	// Host and Port are where it listens.
	Host string
	Port string
	// Home is the home directory of the user.
	Home string
	// Dir is a private directory for the test.
	Dir string
	// Sessions is where runners make the private directories of their sessions.
	Sessions string

	t      testing.TB
	o      Options
	pid    int    // of sshd; 0 while it does not run
	wait   func() // waits for its end
	config string
	host   string // the public key of the server
}

// Start starts a server that ends with the test. It skips the test where no sshd can be had.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	sshd := find()
	if sshd == "" {
		t.Skip("SKIPPED: there is no sshd; tests/setup.sh installs it")
	}
	if os.Getuid() != 0 {
		// Only root can have another home directory and another login shell without changing the
		// machine's passwd.
		t.Skip("SKIPPED: a private sshd needs root")
	}
	if o.Shell == "" {
		o.Shell = "/bin/sh"
	}
	dir := testkit.Dir(t)
	s := &Server{t: t, o: o, Host: "127.0.0.1", Dir: dir, Home: filepath.Join(dir, "home"), Sessions: filepath.Join(dir, "s")}
	s.must(os.Mkdir(s.Home, 0o700))
	s.must(os.Mkdir(s.Sessions, 0o700))
	s.SetBoot(process.BootID())
	s.must(os.MkdirAll("/run/sshd", 0o755)) // sshd wants it
	s.host = s.key("hostkey")
	s.must(os.WriteFile(s.path("authorized_keys"), []byte(s.key("userkey")+"\n"), 0o600))
	s.Port = freePort(t)
	s.must(os.WriteFile(s.path("known_hosts"), []byte(s.KnownHost()), 0o600))
	s.passwd()
	s.write()
	s.Run()
	t.Cleanup(s.Kill)
	return s
}

func find() string {
	for _, path := range []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd"} {
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

func (s *Server) path(name string) string { return filepath.Join(s.Dir, name) }

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// KnownHost is the line of known_hosts for the server.
func (s *Server) KnownHost() string { return fmt.Sprintf("[%s]:%s %s\n", s.Host, s.Port, s.host) }

// KnownHosts is the file with that line; a test may change it.
func (s *Server) KnownHosts() string { return s.path("known_hosts") }

// Identity is the file with the private key that the server accepts.
func (s *Server) Identity() string { return s.path("userkey") }

// NewKey makes another key and returns its file.
func (s *Server) NewKey(name string) string {
	s.key(name)
	return s.path(name)
}

// Destination is what a client connects to, at the port of the server or of a proxy before it.
func (s *Server) Destination() string { return "ssh://root@" + s.Host + ":" + s.Port }

// ClientOptions are options of ssh_config with which a client connects without the user's own files.
func (s *Server) ClientOptions() []string {
	return []string{"UserKnownHostsFile=" + s.KnownHosts(), "GlobalKnownHostsFile=/dev/null", "IdentityAgent=none"}
}

// key makes a key and returns its public part.
func (s *Server) key(name string) string {
	s.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err)
	der, err := x509.MarshalECPrivateKey(private)
	s.must(err)
	s.must(os.WriteFile(s.path(name), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600))
	point, err := private.PublicKey.Bytes()
	s.must(err)
	const kind, curve = "ecdsa-sha2-nistp256", "nistp256"
	var b []byte
	for _, part := range []string{kind, curve, string(point)} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	return kind + " " + base64.StdEncoding.EncodeToString(b)
}

// passwd writes the passwd of the machine with another home directory and shell for the user. sshd
// sees it instead.
func (s *Server) passwd() {
	s.t.Helper()
	text, err := os.ReadFile("/etc/passwd")
	s.must(err)
	me, err := user.Current()
	s.must(err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, me.Username+":") {
			lines = append(lines, line)
		}
	}
	lines = append(lines, fmt.Sprintf("%s:x:%s:%s:test:%s:%s\n", me.Username, me.Uid, me.Gid, s.Home, s.o.Shell))
	s.must(os.WriteFile(s.path("passwd"), []byte(strings.Join(lines, "")), 0o644))
}

func (s *Server) write() {
	s.t.Helper()
	s.config = s.path("sshd_config")
	lines := append(s.o.Config,
		"ListenAddress "+s.Host+":"+s.Port, "HostKey "+s.path("hostkey"), "AuthorizedKeysFile "+s.path("authorized_keys"),
		"PidFile none", "StrictModes no", "UsePAM no", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
		"PermitRootLogin prohibit-password", "Subsystem sftp internal-sftp", "MaxSessions 100", "MaxStartups 100:30:200",
		"SetEnv TRL_RUNNER_DIR="+s.Sessions, "UseDNS no", "PrintMotd no", "AcceptEnv LANG LC_*", "LogLevel VERBOSE",
	)
	s.must(os.WriteFile(s.config, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

// Run starts sshd again after Kill, on the same port.
func (s *Server) Run() {
	s.t.Helper()
	null, err := os.Open(os.DevNull)
	s.must(err)
	defer null.Close()
	r, w, err := os.Pipe()
	s.must(err)
	log, err := os.OpenFile(s.path("sshd.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	s.must(err)
	defer log.Close()
	script := `mount --bind "$D/passwd" /etc/passwd && mount --bind "$D/boot_id" /proc/sys/kernel/random/boot_id && ` + orTrue(s.o.Mount) + ` && exec "$S" -D -e -f "$D/sshd_config"`
	env := append(os.Environ(), "D="+s.Dir, "H="+s.Home, "S="+find())
	s.spawn([]string{"unshare", "--mount", "/bin/sh", "-c", script}, env, []*os.File{null, w, w})
	w.Close()
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		_, _ = log.WriteString(line)
		if strings.Contains(line, "Server listening") {
			break
		}
		if err != nil {
			text, _ := os.ReadFile(s.path("sshd.log"))
			s.t.Fatalf("sshd does not start: %s\n%s", err, text)
		}
	}
	go func() { // ends with sshd and its connections
		defer r.Close()
		log, err := os.OpenFile(s.path("sshd.log"), os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return
		}
		defer log.Close()
		_, _ = lines.WriteTo(log)
	}()
}

func (s *Server) spawn(args, env []string, files []*os.File) {
	s.t.Helper()
	const path = "/usr/bin/unshare"
	if s.o.Reaper != nil {
		p, err := s.o.Reaper.Start(process.Spec{Path: path, Args: args, Env: env, Dir: "/", Files: files, Setsid: true})
		s.must(err)
		s.pid, s.wait = p.PID, func() { <-p.Done() }
		return
	}
	cmd := &exec.Cmd{
		Path: path, Args: args, Env: env, Dir: "/", Stdin: files[0], Stdout: files[1], Stderr: files[2],
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	s.must(cmd.Start())
	s.pid, s.wait = cmd.Process.Pid, func() { _ = cmd.Wait() }
}

// SetBoot changes what identifies the boot of the machine, for what sshd starts. A test that says that
// the machine was restarted also kills what runs there.
func (s *Server) SetBoot(id string) {
	s.t.Helper()
	s.must(os.WriteFile(s.path("boot_id"), []byte(id+"\n"), 0o644))
}

func orTrue(script string) string {
	if script == "" {
		return "true"
	}
	return "{ " + script + "; }"
}

// Kill kills sshd and its connections, but nothing that was started by them.
func (s *Server) Kill() {
	s.t.Helper()
	if s.pid == 0 {
		return
	}
	connections := process.Descendants(s.pid, func(i process.Info) bool { return i.Name != "sshd" })
	_ = syscall.Kill(s.pid, syscall.SIGKILL) // it is a child that is waited for below
	for _, i := range connections {
		if h, ok := process.Open(i); ok {
			_ = h.Signal(syscall.SIGKILL)
			h.Close()
		}
	}
	s.wait()
	s.pid = 0
}

// Log returns what sshd wrote.
func (s *Server) Log() string {
	text, _ := os.ReadFile(s.path("sshd.log"))
	return string(text)
}

// Aim makes the client's files name another port, that of a proxy before the server.
func (s *Server) Aim(address string) {
	s.t.Helper()
	_, port, err := net.SplitHostPort(address)
	s.must(err)
	s.Port = port
	s.must(os.WriteFile(s.KnownHosts(), []byte(s.KnownHost()), 0o600))
}

func freePort(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}
