// Package confine starts a process of a session within its confinement: the cgroups that limit it
// and the limits of the process itself.
//
// On Linux, the runner prepares the confinement, and the child applies it between fork and exec, with
// system calls alone. Namespaces are prepared from inside, so with them, and on macOS, a confined process
// begins as a second copy of the runner, which applies the confinement to itself and then becomes the
// program. Either way nothing of the program runs unconfined, and a confinement that cannot be applied is
// an error of Start, not a process without it.
package confine

import (
	"encoding/json"
	"errors"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/trl-dev/trl/internal/process"
)

// Verb is the first argument of a runner that confines itself and becomes another program.
const Verb = "enter"

// Confinement is what a process may use. It is applied in the order of the fields.
type Confinement struct {
	// Join lists the files cgroup.procs of the groups that the process enters.
	Join []string `json:"join,omitempty"`
	// Rlimits are applied as soft and hard limits.
	Rlimits []Rlimit `json:"rlimits,omitempty"`
	// OOMScoreAdj makes the kernel prefer the process as a victim when memory is short; nil leaves
	// it as it is.
	OOMScoreAdj *int `json:"oom_score_adj,omitempty"`
	// Isolation is what the process may touch; nil for everything.
	Isolation *Isolation `json:"isolation,omitempty"`
	// Dir is the working directory of a process that sees another tree, and NearDir that of
	// process.Spec. Start sets both.
	Dir     string `json:"dir,omitempty"`
	NearDir bool   `json:"near_dir,omitempty"`
	// Door is called with the listening socket that the process has opened in its network
	// namespace, at ProxyAddress, before it becomes the program. See Isolation.Door.
	Door func(*os.File) `json:"-"`
}

// ProxyAddress is where a program in its own network namespace finds the proxy.
const ProxyAddress = "127.0.0.1:3128"

// Isolation is what a process may touch, in terms of this kernel. All paths are absolute and real.
type Isolation struct {
	// Namespaces are those in which the process starts, as clone(2) names them. With
	// CLONE_NEWNS, View is the tree that the process sees; with CLONE_NEWNET, it has only a loopback
	// interface.
	Namespaces uintptr `json:"namespaces,omitempty"`
	// View is in the order of its paths, so that a directory comes before its entries.
	View []Mount `json:"view,omitempty"`
	// Door makes the process listen at ProxyAddress in its network namespace.
	Door bool `json:"door,omitempty"`
	// Landlock is the version of Landlock to use; 0 for none. Files are its rules; Confined says that
	// there are rules for files at all. Scoped keeps signals and abstract sockets inside.
	Landlock int    `json:"landlock,omitempty"`
	Confined bool   `json:"confined,omitempty"`
	Scoped   bool   `json:"scoped,omitempty"`
	Files    []Rule `json:"files,omitempty"`
	// Families are the families of sockets that the process may make; nil for the usual ones.
	Families []int `json:"families,omitempty"`
	// ConnectPort leaves of the internet only TCP connections to this port; 0 for everything. It needs
	// version 4 of Landlock.
	ConnectPort int `json:"connect_port,omitempty"`
	// NoIPC forbids shared memory and semaphores of System V and message queues, which belong to all
	// processes of the user.
	NoIPC bool `json:"no_ipc,omitempty"`
	// OwnProcesses forbids to limit other processes and to change their priority.
	OwnProcesses bool `json:"own_processes,omitempty"`
	// Profile is for sandbox-exec on macOS.
	Profile string `json:"profile,omitempty"`
}

// Mount is one path of the tree that a process sees.
type Mount struct {
	Path string `json:"path"`
	// Kind is how the path appears.
	Kind MountKind `json:"kind"`
	// From is the path that appears there; empty for the same one. For a link, it is where it leads.
	From string `json:"from,omitempty"`
	// Optional says that a hidden path may be missing. Inode is the number that a hidden directory must
	// have, and DirInode that of the directory that a hidden file is in; 0 for any.
	Optional bool   `json:"optional,omitempty"`
	Inode    uint64 `json:"inode,omitempty"`
	DirInode uint64 `json:"dir_inode,omitempty"`
}

// MountKind is how a path appears.
type MountKind string

// The kinds of mounts.
const (
	MountWhole  MountKind = "whole"  // the tree as it is
	MountRead   MountKind = "read"   // the tree, read-only
	MountWrite  MountKind = "write"  // the tree, writable
	MountHidden MountKind = "hidden" // an empty directory or file in its place
	MountPinned MountKind = "pinned" // the directory that is there, or a new one, which cannot be renamed
	MountLink   MountKind = "link"   // a symbolic link
	MountProc   MountKind = "proc"   // a /proc with only the processes of the session
	MountDev    MountKind = "dev"    // a /dev with the usual devices and terminals of its own
)

// Rule is a path that a process may use.
type Rule struct {
	Path string `json:"path"`
	// May is what the process may do with the path and everything below.
	May Access `json:"may"`
}

// Access is what a process may do with a path.
type Access string

// The kinds of access.
const (
	MayList   Access = "list"   // list directories
	MayRead   Access = "read"   // read and execute
	MayWrite  Access = "write"  // and write, make and remove
	MayChange Access = "change" // read and write files that exist
	MayUse    Access = "use"    // and control devices
)

// Rlimit is a limit of setrlimit(2).
type Rlimit struct {
	Resource int    `json:"resource"`
	Max      uint64 `json:"max"`
}

func (r Rlimit) String() string { return "limit " + strconv.Itoa(r.Resource) }

// lowered returns the limit as it is set: that of the user, if it is lower.
func (r Rlimit) lowered() syscall.Rlimit {
	var now syscall.Rlimit
	if syscall.Getrlimit(r.Resource, &now) == nil && now.Max < r.Max {
		return syscall.Rlimit{Cur: now.Max, Max: now.Max}
	}
	return syscall.Rlimit{Cur: r.Max, Max: r.Max}
}

// empty reports whether there is nothing to apply.
func (c *Confinement) empty() bool {
	return c == nil || len(c.Join) == 0 && len(c.Rlimits) == 0 && c.OOMScoreAdj == nil && c.Isolation == nil
}

// Start starts a process with start, confined. It returns when the process is the program of spec,
// or reports why it cannot be. Without a confinement it only calls start.
func Start(start func(process.Spec) (*process.Process, error), spec process.Spec, c *Confinement) (*process.Process, error) {
	switch {
	case c.empty():
		return start(spec)
	case c.direct():
		spec.Dir = nearDir(spec)
		return c.start(start, spec)
	}
	self := "/proc/self/exe" // also when the file was replaced
	if runtime.GOOS != "linux" {
		var err error
		if self, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	if c.Isolation == nil || len(c.Isolation.View) == 0 {
		spec.Dir = nearDir(spec)
	} else { // only the process itself sees its directory
		own := *c
		own.Dir, own.NearDir, spec.Dir = spec.Dir, spec.NearDir, "/"
		c = &own
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	status, theirs, err := statusPair()
	if err != nil {
		return nil, err
	}
	defer status.Close()
	fd := len(spec.Files)
	spec.Args = append([]string{"trl-runner", Verb, strconv.Itoa(fd), string(text), spec.Path}, spec.Args...)
	spec.Files = append(spec.Files[:fd:fd], theirs)
	spec.Path = self
	if len(c.Join) > 0 {
		spec.CgroupFD = 0 // the process enters all its groups itself, before it does anything else
	}
	c.Isolation.prepare(&spec)
	p, err := start(spec)
	theirs.Close()
	if err != nil {
		return nil, err
	}
	// The pipe closes when the process becomes the program, or ends.
	why, err := c.listen(status)
	if len(why) == 0 && err == nil {
		return p, nil
	}
	<-p.Done()
	number, what, _ := strings.Cut(string(why), " ")
	if errno, numErr := strconv.Atoi(number); numErr == nil && errno > 0 {
		return nil, &os.PathError{Op: "start confined", Path: what, Err: syscall.Errno(errno)}
	}
	return nil, errors.New("start confined: " + what)
}

// nearDir returns the directory of a process, or with NearDir the nearest one above that exists.
func nearDir(spec process.Spec) string {
	dir := spec.Dir
	for spec.NearDir && dir != "" && dir != "/" {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			break
		}
		dir = path.Dir(dir)
	}
	return dir
}

// Enter is the process that Start starts: it applies the confinement and becomes the program. The
// order is cgroups, namespaces, limits of the process, no_new_privs, file and network rules, filters
// of system calls, exec: each step would forbid an earlier one. Only the steps that the session
// wants are taken. Enter returns the exit status if that fails.
func Enter(args []string) int {
	if len(args) < 4 {
		return 2
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil || fd < 3 {
		return 2
	}
	syscall.CloseOnExec(fd)
	debug.SetGCPercent(-1) // a collection would need threads
	runtime.LockOSThread() // what follows is for the thread that becomes the program
	var c Confinement
	what := args[2]
	if err = json.Unmarshal([]byte(args[1]), &c); err == nil {
		what, err = c.become(fd, args[2], args[3:])
	}
	number := 0
	var errno syscall.Errno
	if errors.As(err, &errno) {
		number = int(errno)
	} else {
		what = err.Error()
	}
	_, _ = syscall.Write(fd, []byte(strconv.Itoa(number)+" "+what))
	return 126
}
