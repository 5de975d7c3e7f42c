package limits

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
)

// removeWithin limits how long Remove waits for the last process to leave a group.
const removeWithin = 2 * time.Second

// Remove removes the groups of a session whose processes are being killed.
func (g *Group) Remove() error {
	if g == nil {
		return nil
	}
	return removeDirs(g.dirs())
}

func removeDirs(dirs []string) error {
	var all []error
	deadline := time.Now().Add(removeWithin)
	for _, dir := range dirs {
		for {
			// A v1 group announces neither that it is empty nor can it be killed as a whole.
			for _, pid := range procsBelow(dir) {
				if pid > 0 && pid != os.Getpid() {
					_ = unix.Kill(pid, unix.SIGKILL)
				}
			}
			err := rmdir(dir)
			if err == nil {
				os.Remove(filepath.Dir(dir))
				break
			}
			if time.Now().After(deadline) {
				all = append(all, err)
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	return errors.Join(all...)
}

// RemoveAt removes the groups of a session below roots, which Roots has returned in this process or
// an earlier one, and kills the processes in them.
func RemoveAt(roots []string, id string) error {
	var dirs []string
	for _, root := range roots {
		// The path may come from a file.
		dir := filepath.Join(root, id)
		if filepath.IsAbs(root) && strings.HasPrefix(filepath.Base(root), "trl-") && filepath.Dir(dir) == root && isV1(dir) {
			dirs = append(dirs, dir)
		}
	}
	return removeDirs(dirs)
}

func isV1(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Type == unix.CGROUP_SUPER_MAGIC
}

// Roots returns the directories of cgroup v1 below which this process and its children make the
// groups of sessions.
func Roots() (roots []string) {
	for _, controller := range []string{"cpu", "memory", "pids"} {
		if root, err := rootV1(controller); err == nil {
			roots = append(roots, root)
		}
	}
	return roots
}

// rootV1 returns the directory for the groups of sessions in the tree of a controller of cgroup v1.
func rootV1(controller string) (string, error) {
	dirs := process.OwnCgroups(controller)
	for _, dir := range dirs {
		if unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) == nil && unix.Access(dir, unix.W_OK) == nil {
			return filepath.Join(dir, "trl-"+strconv.Itoa(os.Getuid())), nil
		}
	}
	if len(dirs) > 0 {
		return "", errors.New("the cgroup " + dirs[0] + " is not writable; " + advice)
	}
	return "", errNoController
}

// baseOf returns the group below which the groups of sessions are.
func baseOf(tracked string) string { return filepath.Dir(filepath.Dir(tracked)) }

// enable turns the controllers on in the directory of the sessions' groups and above it.
func enable(dir string) error {
	if err := enableIn(filepath.Dir(dir)); err != nil {
		return err
	}
	return enableIn(dir)
}

// enableIn turns the controllers on for the groups below dir. It refuses that for a group that has
// processes, before the kernel may do it: turning on cpu or pids there would make the group threaded,
// and groups below it could take no processes any more. Only the root of the tree is exempt.
func enableIn(dir string) error {
	on := strings.Fields(string(content(dir, "cgroup.subtree_control")))
	for _, controller := range strings.Fields(string(content(dir, "cgroup.controllers"))) {
		if slices.Contains(on, controller) || controller != "cpu" && controller != "memory" && controller != "pids" {
			continue
		}
		var err error
		if exists(dir, "cgroup.type") && len(content(dir, "cgroup.procs")) > 0 {
			err = unix.EBUSY
		} else {
			err = put(dir, "cgroup.subtree_control", "+"+controller)
		}
		if err != nil {
			why := err.Error()
			if errors.Is(err, unix.EBUSY) {
				why = "it has processes of its own"
			}
			return errors.New("the controller " + controller + " cannot be turned on in the cgroup " + dir + ": " + why + "; " + advice)
		}
	}
	return nil
}

// weakRlimits returns limits of processes in place of limits that cannot be enforced. RLIMIT_DATA
// counts writable memory only, because runtimes such as those of Go, Java and Node reserve far more
// addresses than they use. RLIMIT_NPROC counts all processes of the user.
func weakRlimits(l api.Limits, missing map[string]bool) (list []rlimit) {
	if missing[api.LimitMemory] {
		list = append(list, rlimit{api.LimitMemory, unix.RLIMIT_DATA, uint64(*l.MemoryBytes)})
	}
	if missing[api.LimitPids] && os.Getuid() != 0 {
		list = append(list, rlimit{api.LimitPids, unix.RLIMIT_NPROC, uint64(*l.Pids) + userTasks()})
	}
	return list
}

// userTasks counts the processes and threads of this user.
func userTasks() (n uint64) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		var st unix.Stat_t
		dir := "/proc/" + e.Name()
		if e.Name()[0] < '1' || e.Name()[0] > '9' || unix.Stat(dir, &st) != nil || int(st.Uid) != os.Getuid() {
			continue
		}
		threads, _ := os.ReadDir(dir + "/task")
		n += uint64(len(threads))
	}
	return n
}

// setRlimit changes a limit of a process that runs.
func setRlimit(pid, resource int, value uint64) error {
	err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: value, Max: value}, nil)
	var now unix.Rlimit
	switch {
	case err == unix.ESRCH:
		return nil
	case err == unix.EPERM && unix.Prlimit(pid, resource, nil, &now) == nil && now.Max <= value:
		return nil // only root can raise it, and it is stricter
	}
	return err
}
