package process

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// manyThreads means that the number of threads is unknown.
const manyThreads = 0

// Stat returns the Info of a process. It returns false if there is no process with that id.
func Stat(pid int) (Info, bool) {
	kp, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(kp.Proc.P_pid) != pid {
		return Info{}, false
	}
	info := infoOf(kp)
	if task, ok := taskInfo(pid); ok {
		info.UserMS, info.SystemMS = machMS(task.totalUser), machMS(task.totalSystem)
	}
	return info, true
}

func stat(pid int) (info Info, threads int, ok bool) {
	info, ok = Stat(pid)
	return info, manyThreads, ok
}

func infoOf(kp *unix.KinfoProc) Info {
	pid := int(kp.Proc.P_pid)
	sid, _ := unix.Getsid(pid)
	name, _, _ := bytes.Cut(kp.Proc.P_comm[:], []byte{0})
	return Info{
		PID:       pid,
		PPID:      int(kp.Eproc.Ppid),
		PGID:      int(kp.Eproc.Pgid),
		SID:       sid,
		StartTime: uint64(kp.Proc.P_starttime.Sec)*1e6 + uint64(kp.Proc.P_starttime.Usec),
		State:     stateOf(kp.Proc.P_stat),
		Name:      string(name),
	}
}

// stateOf translates the numbers of sys/proc.h: SIDL, SRUN, SSLEEP, SSTOP, SZOMB.
func stateOf(p int8) byte {
	const letters = "?IRSTZ"
	if p < 0 || int(p) >= len(letters) {
		return '?'
	}
	return letters[p]
}

// all returns the Info of every process.
func all() []Info {
	kps, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	infos := make([]Info, len(kps))
	for i := range kps {
		infos[i] = infoOf(&kps[i])
	}
	return infos
}

func readTable() *table { return makeTable(all()) }

// Now returns the current time as an Info.StartTime.
func Now() uint64 { return uint64(time.Now().UnixMicro()) }

// Children returns the direct children of a process, including zombies.
func Children(pid int) []int { return readTable().children[pid] }

func children(pid, _ int) []int { return Children(pid) }

// ChildWatch lists the direct children of one process repeatedly. Each time it reads all
// processes, because macOS has no faster way. It is not safe for concurrent use.
type ChildWatch struct{ pid int }

// WatchChildren returns a ChildWatch for a process.
func WatchChildren(pid int) *ChildWatch { return &ChildWatch{pid: pid} }

// List appends the ids of the children, including zombies, to buf[:0] and returns it.
func (w *ChildWatch) List(buf []int) []int { return append(buf[:0], Children(w.pid)...) }

// Close does nothing on macOS.
func (w *ChildWatch) Close() {}

func arguments(pid int) []byte {
	args, _ := procArgs(pid)
	return args
}

func procArgs(pid int) (args, env []byte) {
	raw, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return nil, nil
	}
	return parseProcArgs(raw)
}

// Env returns the value that a variable had when the process was started. macOS hides the
// environment of its protected programs. It does not see a value that is longer than maxEnv.
func Env(pid int, key string) (value string, ok bool) {
	_, env := procArgs(pid)
	for len(env) > 0 {
		var entry []byte
		entry, env, _ = bytes.Cut(env, []byte{0})
		if v, found := bytes.CutPrefix(entry, []byte(key+"=")); found && len(v) <= maxEnv {
			return string(v), true
		}
	}
	return "", false
}

// ignores reports whether the process ignores a signal.
func ignores(pid int, sig syscall.Signal) bool {
	kp, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	return err == nil && kp.Proc.P_sigignore&(1<<(uint(sig)-1)) != 0
}

// HighWaterRSS returns 0: macOS does not report it for other processes.
func HighWaterRSS(int) int64 { return 0 }

// BootID identifies the current run of the machine, within which start times are comparable. The
// time of the boot is only the fallback, because it changes when the clock is set.
func BootID() string {
	if id, err := unix.Sysctl("kern.bootsessionuuid"); err == nil && id != "" {
		return id
	}
	tv, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return ""
	}
	return strconv.FormatInt(tv.Sec, 10) + "." + strconv.FormatInt(int64(tv.Usec), 10)
}

// SelfUsage returns the resident size of this process and the number of its open descriptors; 0
// where that is unknown.
func SelfUsage() (rssBytes int64, openFDs int) {
	if task, ok := taskInfo(os.Getpid()); ok {
		rssBytes = int64(task.residentSize)
	}
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return rssBytes, 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	// One of them is the descriptor of the directory itself.
	return rssBytes, max(len(names)-1, 0)
}

// Turns returns false: how often a process runs is not read on macOS.
func Turns(int) (turns uint64, used time.Duration, ok bool) { return 0, 0, false }

// procTaskInfo is struct proc_taskinfo of sys/proc_info.h.
type procTaskInfo struct {
	virtualSize, residentSize uint64
	totalUser, totalSystem    uint64 // in units of the machine's clock
	threadsUser               uint64
	threadsSystem             uint64
	_                         [12]int32
}

// taskInfo is proc_pidinfo(pid, PROC_PIDTASKINFO) of libproc.
func taskInfo(pid int) (info procTaskInfo, ok bool) {
	const (
		callPIDInfo = 2
		pidTaskInfo = 4
	)
	n, _, errno := syscall.Syscall6(syscall.SYS_PROC_INFO, callPIDInfo, uintptr(pid), pidTaskInfo, 0,
		uintptr(unsafe.Pointer(&info)), unsafe.Sizeof(info))
	return info, errno == 0 && n == unsafe.Sizeof(info)
}

// machMS converts units of the machine's clock to milliseconds.
func machMS(units uint64) int64 {
	hz, err := unix.SysctlUint64("hw.tbfrequency")
	if err != nil || hz < 1000 {
		return 0
	}
	return int64(units / (hz / 1000))
}
