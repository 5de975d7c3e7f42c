//go:build linux

package process_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/testkit"
)

const syscallLine = "7 0x7fa7d75b0000 0x2 0xffffffffffffffff 0x0 0x7 0x0 0x7fffa3d37c78 0x7fa7d772c2ad\n"

func TestParseSyscall(t *testing.T) {
	number, args, ok := process.ParseSyscall([]byte(syscallLine))
	if want := [6]uint64{0x7fa7d75b0000, 2, 1<<64 - 1, 0, 7, 0}; !ok || number != 7 || args != want {
		t.Errorf("%d %x %v", number, args, ok)
	}
	for _, bad := range []string{
		"", "running\n", "-1 0x7fffa3d37c78 0x7fa7d772c2ad\n", "7 0x1 0x2\n", "7", strings.Replace(syscallLine, "0x2", "2", 1),
		"0 0x0 0x1 0x2 0x3 0x4 0x5 0xfffdd010 0xf7fc3579\n", // a program of 32 bits
	} {
		if number, _, ok := process.ParseSyscall([]byte(bad)); ok {
			t.Errorf("%q is taken for %d", bad, number)
		}
	}
}

const epollInfo = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t1057\n" +
	"tfd:       12 events:       19 data:                c  pos:0 ino:3 sdev:8\n" +
	"tfd:        0 events: 80002019 data:                0  pos:0 ino:2f sdev:e\n" +
	"tfd:        1 events:        4 data:                1  pos:0 ino:30 sdev:e\n" +
	"tfd:        5 events: 40000000 data:                5  pos:0 ino:30 sdev:e\n"

func TestParseEpoll(t *testing.T) {
	if got := process.ParseEpoll([]byte(epollInfo)); !slices.Equal(got, []uint64{12, 0}) {
		t.Errorf("%v", got)
	}
}

func FuzzInputWaits(f *testing.F) {
	f.Add([]byte(syscallLine), uint64(3))
	f.Add([]byte(epollInfo), uint64(64))
	f.Add([]byte(statLine), uint64(1<<63))
	f.Add([]byte("0 0x 0x"), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, n uint64) {
		if number, args, ok := process.ParseSyscall(b); !ok && (number != 0 || args != [6]uint64{}) {
			t.Errorf("half of a result: %d %x", number, args)
		}
		if fds := process.ParseEpoll(b); len(fds) > strings.Count(string(b), "tfd:") {
			t.Errorf("%v", fds)
		}
		for _, fd := range process.Polled(b) {
			if fd > 1<<31 {
				t.Errorf("descriptor %d", fd)
			}
		}
		fds := process.Selected(b, n)
		if !slices.IsSorted(fds) || len(fds) > 8*len(b) || len(fds) > 0 && fds[len(fds)-1] >= n {
			t.Errorf("%v of %d", fds, n)
		}
		process.ParseTerminal(b)
	})
}

func TestParseTerminal(t *testing.T) {
	group, tty, foreground, ok := process.ParseTerminal([]byte(statLine))
	if !ok || group != 4242 || tty != 34816 || foreground != 4242 {
		t.Errorf("%d %d %d %v", group, tty, foreground, ok)
	}
	if _, _, foreground, ok := process.ParseTerminal([]byte(strings.Replace(statLine, "34816 4242", "0 -1", 1))); !ok || foreground == 4242 {
		t.Errorf("without a terminal: %d %v", foreground, ok)
	}
}

// readers wait for input on descriptor 0 in ways that a shell script does not.
var readers = map[string]func(){
	"poll": func() { unix.Poll([]unix.PollFd{{Fd: 1, Events: unix.POLLPRI}, {Fd: 0, Events: unix.POLLIN}}, -1) },
	"ppoll": func() {
		unix.Ppoll([]unix.PollFd{{Fd: -1, Events: unix.POLLIN}, {Fd: 0, Events: unix.POLLIN}}, nil, nil)
	},
	"select":  func() { waitSelect(0) },
	"epoll":   func() { waitEpoll(unix.EPOLLIN | unix.EPOLLET) },
	"readv":   func() { unix.Readv(0, [][]byte{make([]byte, 1), make([]byte, 1)}) },
	"splice":  func() { unix.Splice(0, nil, 1, nil, 1, 0) },
	"thread":  func() { go unix.Read(0, make([]byte, 1)); unix.Select(0, nil, nil, nil, nil) },
	"stopped": func() { unix.Kill(os.Getpid(), unix.SIGSTOP); unix.Read(0, make([]byte, 1)) },
}

// others have their input open and wait for something else.
var others = map[string]func(){
	"poll-out":    func() { unix.Poll([]unix.PollFd{{Fd: 0, Events: unix.POLLPRI}}, -1) },
	"poll-other":  func() { unix.Poll([]unix.PollFd{{Fd: int32(other()), Events: unix.POLLIN}}, -1) },
	"read-other":  func() { unix.Read(other(), make([]byte, 1)) },
	"select-none": func() { unix.Select(0, nil, nil, nil, nil) },
	"epoll-out":   func() { waitEpoll(unix.EPOLLRDHUP) },
	"sleep":       func() { unix.Nanosleep(&unix.Timespec{Sec: 1000}, nil) },
}

func init() {
	for name, f := range readers {
		helpers["input-"+name] = func() { fmt.Println("up"); f() }
	}
	for name, f := range others {
		helpers["input-"+name] = func() { fmt.Println("up"); f() }
	}
	helpers["input-computes"] = func() {
		fmt.Println("up")
		for n := uint64(1); n != 0; n++ {
			computed.Store(n)
		}
	}
}

var computed atomic.Uint64

func waitSelect(fd int) {
	var set unix.FdSet
	set.Set(fd)
	unix.Select(fd+1, &set, nil, nil, nil)
}

func waitEpoll(events uint32) {
	epoll, err := unix.EpollCreate1(0)
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, 0, &unix.EpollEvent{Events: events})
	}
	if err != nil {
		panic(err)
	}
	unix.EpollWait(epoll, make([]unix.EpollEvent, 1), -1)
}

// other returns the reading end of a pipe that never has data.
func other() int {
	var p [2]int
	if err := unix.Pipe(p[:]); err != nil {
		panic(err)
	}
	return p[0]
}

// pipeOf returns the id of the pipe that is the stdin of a child.
func pipeOf(c *child) process.FileID { return process.FileIDOf(int(c.in.(*os.File).Fd())) }

func TestBlockedReader(t *testing.T) {
	if process.CanSeeReads(os.Getpid()) != nil {
		t.Skip("NOT TESTED: this system does not tell what a process waits for")
	}
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		check := func(name string, c *child) {
			pipe := pipeOf(c)
			testkit.Eventually(t, name+" waits for its input", func() bool {
				_, ok := process.BlockedReader(c.PID, pipe, false)
				if i, _ := process.Stat(c.PID); i.State == 'T' {
					unix.Kill(c.PID, unix.SIGCONT)
				}
				return ok
			})
			// The value is the same as long as the process does not run.
			testkit.Eventually(t, name+" stays where it is", func() bool {
				first, ok := process.BlockedReader(c.PID, pipe, false)
				second, again := process.BlockedReader(c.PID, pipe, false)
				return ok && again && first == second && first.PID == c.PID
			})
			if _, ok := process.BlockedReader(c.PID, process.FileID{}, true); ok {
				t.Errorf("%s: its pipe is taken for a terminal", name)
			}
			if _, ok := process.BlockedReader(c.PID, process.FileID{Dev: pipe.Dev, Ino: pipe.Ino + 1}, false); ok {
				t.Errorf("%s: its pipe is taken for another one", name)
			}
			c.in.Close()
			unix.Kill(c.PID, unix.SIGKILL)
			c.wait(t)
		}
		for name := range readers {
			c := helper(t, r, "input-"+name)
			c.expect(t, "up")
			check(name, c)
		}
		for _, script := range []string{"read x", "exec cat", "exec head -1", "exec 5<&0; read x <&5"} {
			check(script, shell(t, r, script))
		}
	})
}

func TestNotBlockedReader(t *testing.T) {
	isolated(t, func(t *testing.T) {
		r := process.NewReaper()
		defer r.Close()
		check := func(name string, c *child, pid int) {
			pipe := pipeOf(c)
			testkit.Eventually(t, name+" has come to its place", func() bool { return settled(pid) })
			for range 20 {
				if got, ok := process.BlockedReader(pid, pipe, true); ok {
					t.Errorf("%s: seen as %+v", name, got)
					break
				}
			}
			unix.Kill(c.PID, unix.SIGKILL)
			c.wait(t)
		}
		for name := range others {
			c := helper(t, r, "input-"+name)
			c.expect(t, "up")
			check(name, c, c.PID)
		}
		c := helper(t, r, "input-computes")
		c.expect(t, "up")
		for range 200 {
			if got, ok := process.BlockedReader(c.PID, pipeOf(c), true); ok {
				t.Errorf("seen as %+v while it computes", got)
				break
			}
		}
		unix.Kill(c.PID, unix.SIGKILL)
		c.wait(t)
		// A shell that waits for its child, which waits for something else.
		waits := shell(t, r, "sleep 1000; :")
		testkit.Eventually(t, "the shell has a child", func() bool { return len(process.Children(waits.PID)) == 1 })
		sleep := process.Children(waits.PID)[0]
		check("wait", waits, waits.PID)
		unix.Kill(sleep, unix.SIGKILL)
		if process.CanSeeReads(waits.PID) != nil { // the process has ended, which is not an error
			t.Error("a process that is gone cannot be seen")
		}
	})
}

// settled reports whether a process has not run for a moment.
func settled(pid int) bool {
	where := func() string {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
		s, _ := os.ReadFile(fmt.Sprintf("/proc/%d/sched", pid))
		return string(b) + string(s)
	}
	before := where()
	time.Sleep(10 * time.Millisecond)
	return before == where() && !strings.HasPrefix(before, "running")
}

// TestBlockedOnTerminal: a program that reads the terminal in whose foreground it is waits for
// input; a program that reads the master does not.
func TestBlockedOnTerminal(t *testing.T) {
	if process.CanSeeReads(os.Getpid()) != nil {
		t.Skip("NOT TESTED: this system does not tell what a process waits for")
	}
	isolated(t, func(t *testing.T) {
		master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Skipf("NOT TESTED: %v", err)
		}
		defer master.Close()
		n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
		if err == nil {
			err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer slave.Close()
		r := process.NewReaper()
		defer r.Close()
		end := func(p *process.Process) {
			p.Signal(unix.SIGKILL)
			<-p.Done()
		}
		for _, script := range []string{"exec cat", "exec cat </dev/tty", "read x"} {
			p, err := r.Start(process.Spec{
				Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")},
				Files: []*os.File{slave, slave, slave}, Setsid: true, Setctty: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, script+" waits at its terminal", func() bool {
				_, ok := process.BlockedReader(p.PID, process.FileID{}, true)
				return ok
			})
			if _, ok := process.BlockedReader(p.PID, process.FileID{}, false); ok {
				t.Error("a terminal counts that should not")
			}
			end(p)
		}
		p, err := r.Start(process.Spec{
			Path: "/bin/sh", Args: []string{"sh", "-c", "exec cat"}, Env: []string{"PATH=" + os.Getenv("PATH")},
			Files: []*os.File{master, slave, slave}, Setsid: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "cat reads the master", func() bool {
			i, _ := process.Stat(p.PID)
			return i.Name == "cat" && settled(p.PID)
		})
		if got, ok := process.BlockedReader(p.PID, process.FileID{}, true); ok {
			t.Errorf("who reads the master of a terminal is seen as %+v", got)
		}
		end(p)
	})
}
