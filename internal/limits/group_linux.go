package limits

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/internal/process"
)

// Group is the set of cgroups that limit a session or one of its commands. It makes a group when
// the first limit needs it. A nil Group has no limits. It is safe for concurrent use.
type Group struct {
	id      string
	parent  *Group // of the group of a command
	tracked string // its directory in the v2 tree; "" where there is none

	mu    sync.Mutex
	inner bool              // guarded by mu; the processes are in the group "shell" below tracked, so that groups of commands can have limits
	v1    map[string]string // guarded by mu; directories by controller
	seen  map[string]string // guarded by mu; directories that only are read, by controller; see Observe
}

// innerName is the group for the processes of a session that has groups with limits below it:
// the v2 tree allows no processes beside these.
const innerName = "shell"

// NewGroup returns the group of a session whose processes are in a group of the v2 tree, if any.
func NewGroup(id string, tracked *process.Cgroup) *Group {
	return &Group{id: id, tracked: tracked.Path(), v1: map[string]string{}}
}

// Sub returns the group of one command; tracked is its group in the v2 tree, if any.
func (g *Group) Sub(name string, tracked *process.Cgroup) *Group {
	return &Group{id: name, parent: g, tracked: tracked.Path(), v1: map[string]string{}}
}

// Split prepares the group for groups of commands with limits.
func (g *Group) Split() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inner || g.tracked == "" || !exists(g.tracked, "memory.max") && !exists(g.tracked, "pids.max") && enable(filepath.Dir(g.tracked)) != nil {
		return nil
	}
	inner := filepath.Join(g.tracked, innerName)
	if err := os.Mkdir(inner, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := moveAll(g.tracked, inner); err != nil {
		return err
	}
	if err := enableIn(g.tracked); err != nil {
		return err
	}
	g.inner = true
	return nil
}

// moveAll moves the processes of one group to another, until none is left.
func moveAll(from, to string) error {
	for range 100 {
		pids := strings.Fields(string(content(from, "cgroup.procs")))
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			if pid == "0" { // of another pid namespace; to the kernel, 0 is the caller
				return errors.New(from + ": has a process that is not visible here")
			}
			if err := put(to, "cgroup.procs", pid); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return errors.New(from + ": its processes fork faster than they can be moved")
}

// Adopt moves processes into the groups.
func (g *Group) Adopt(pids ...int) error {
	for _, file := range g.Join() {
		for _, pid := range pids {
			err := put(filepath.Dir(file), "cgroup.procs", strconv.Itoa(pid))
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}

// Active reports whether processes must enter more than the group in the v2 tree.
func (g *Group) Active() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inner || len(g.v1) > 0
}

// Join returns the files cgroup.procs that a process of the group has to enter.
func (g *Group) Join() []string {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	var files []string
	if g.inner {
		files = append(files, filepath.Join(g.tracked, innerName, "cgroup.procs"))
	} else if g.tracked != "" {
		files = append(files, filepath.Join(g.tracked, "cgroup.procs"))
	}
	for _, dir := range g.v1 {
		files = append(files, filepath.Join(dir, "cgroup.procs"))
	}
	own := g.v1
	g.mu.Unlock()
	// A group of a command that has no limit of a kind stays in that group of the session.
	if g.parent != nil {
		g.parent.mu.Lock()
		for controller, dir := range g.parent.v1 {
			if own[controller] == "" {
				files = append(files, filepath.Join(dir, "cgroup.procs"))
			}
		}
		g.parent.mu.Unlock()
	}
	slices.Sort(files)
	return files
}

// Observe makes the counters those of the group of this process, because its place enforces the limits:
// a container that was made for the session.
func (g *Group) Observe() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = map[string]string{}
	for _, controller := range []string{"", "cpu", "memory", "pids"} {
		if dirs := process.OwnCgroups(controller); len(dirs) > 0 {
			g.seen[controller] = dirs[0]
		}
	}
}

// Observes reports whether Observe was called: groups of commands then count nothing themselves.
func (g *Group) Observes() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen != nil
}

// Watch makes groups that count what a command uses, where its session has limits.
func (g *Group) Watch() {
	if dir := g.parent.tracked; exists(dir, limitFiles["memory"]) || exists(dir, limitFiles["pids"]) {
		_ = g.parent.Split() // the group of the command in the v2 tree has counters only then
	}
	g.parent.mu.Lock()
	used := make([]string, 0, len(g.parent.v1))
	for controller := range g.parent.v1 {
		used = append(used, controller)
	}
	g.parent.mu.Unlock()
	for _, controller := range used {
		_, _ = g.dirFor(controller)
	}
}

// Set enforces one limit that needs a cgroup; 0 removes it. It returns the mechanism.
func (g *Group) Set(limit string, value float64) (mechanism string, err error) {
	controller := controllers[limit]
	if value == 0 && g.isFree(controller) {
		return "", nil
	}
	if g.parent != nil {
		if err := g.parent.Split(); err != nil {
			return "", err
		}
	}
	dir, err := g.v2For(controller)
	mechanism = MechanismV2
	if err != nil {
		var v1Err error
		mechanism = MechanismV1
		if dir, v1Err = g.dirFor(controller); v1Err != nil {
			if errors.Is(v1Err, errNoController) {
				return "", err
			}
			return "", v1Err
		}
	}
	return mechanism, write(dir, controller, mechanism == MechanismV2, value)
}

// isFree reports that there is no group whose limit could be removed.
func (g *Group) isFree(controller string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.v1[controller] == "" && (g.tracked == "" || !exists(g.tracked, limitFiles[controller]))
}

// limitFiles are the files of the v2 tree that hold a limit, by controller.
var limitFiles = map[string]string{"cpu": "cpu.max", "memory": "memory.max", "pids": "pids.max"}

func write(dir, controller string, v2 bool, value float64) error {
	whole := "max"
	if value > 0 {
		whole = strconv.FormatInt(int64(value), 10)
	}
	switch {
	case controller == "pids":
		return put(dir, "pids.max", whole)
	case controller == "memory" && v2:
		_ = put(dir, "memory.swap.max", map[bool]string{true: "0", false: "max"}[value > 0]) // swap may be off
		return put(dir, "memory.max", whole)
	case controller == "cpu" && v2:
		if value > 0 {
			whole = strconv.FormatInt(quota(value), 10)
		}
		return put(dir, "cpu.max", whole+" "+strconv.Itoa(period))
	case controller == "cpu":
		if value <= 0 {
			return put(dir, "cpu.cfs_quota_us", "-1")
		}
		if err := put(dir, "cpu.cfs_period_us", strconv.Itoa(period)); err != nil {
			return err
		}
		return put(dir, "cpu.cfs_quota_us", strconv.FormatInt(quota(value), 10))
	}
	if value <= 0 {
		whole = "-1"
	}
	// The limit with swap must never be below the limit without.
	swap := func() error { return put(dir, "memory.memsw.limit_in_bytes", whole) }
	hasSwap := exists(dir, "memory.memsw.limit_in_bytes")
	if hasSwap && (value <= 0 || int64(value) > number(dir, "memory.memsw.limit_in_bytes")) {
		if err := swap(); err != nil {
			return err
		}
	}
	err := put(dir, "memory.limit_in_bytes", whole)
	if err == nil && hasSwap {
		err = swap()
	}
	return err
}

var errNoController = errors.New("this system has no such cgroup controller")

// v2For returns the directory in the v2 tree if the controller is in force there.
func (g *Group) v2For(controller string) (string, error) {
	if g.tracked == "" {
		return "", errors.New("there is no cgroup v2 tree that TRL may write to; " + advice)
	}
	file := limitFiles[controller]
	if !exists(g.tracked, file) {
		if !slices.Contains(strings.Fields(string(content(baseOf(g.tracked), "cgroup.controllers"))), controller) {
			return "", errors.New("the cgroup of TRL has no controller " + controller + "; " + advice)
		}
		if err := enable(filepath.Dir(g.tracked)); err != nil {
			return "", err
		}
		if !exists(g.tracked, file) {
			return "", errors.New("the controller " + controller + " cannot be turned on; " + advice)
		}
	}
	return g.tracked, nil
}

// advice says how to get limits.
const advice = "run the daemon as a unit of systemd 254 or later with Delegate=yes and DelegateSubgroup=trl-daemon (dist/systemd)"

// dirFor returns the directory of a controller of cgroup v1, and makes it if necessary.
func (g *Group) dirFor(controller string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if dir := g.v1[controller]; dir != "" {
		return dir, nil
	}
	var root string
	var err error
	if g.parent == nil {
		root, err = rootV1(controller)
	} else if root, err = g.parent.dirFor(controller); err == nil {
		// The processes of the session are in the group that has just been made, if it was.
		err = g.parent.moveTracked(controller)
	}
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, g.id)
	for range 10 {
		if g.parent == nil {
			if err = os.Mkdir(root, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				return "", unavailable(root, err)
			}
		}
		// Between the two calls, the last of the other sessions may remove the root.
		if err = os.Mkdir(dir, 0o755); !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return "", unavailable(dir, err)
	}
	g.v1[controller] = dir
	return dir, nil
}

func unavailable(dir string, err error) error {
	return errors.New("cgroup " + dir + " cannot be made: " + err.Error() + "; " + advice)
}

// moveTracked moves the processes of the session into its group of a controller.
func (g *Group) moveTracked(controller string) error {
	g.mu.Lock()
	dir := g.v1[controller]
	g.mu.Unlock()
	return g.enter(dir)
}

// dirs returns the directories of cgroup v1.
func (g *Group) dirs() (dirs []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, dir := range g.v1 {
		dirs = append(dirs, dir)
	}
	return dirs
}

// MoveTracked moves all processes of the session, as the v2 tree lists them, into all its groups.
func (g *Group) MoveTracked() error {
	for _, dir := range g.dirs() {
		if err := g.enter(dir); err != nil {
			return err
		}
	}
	return nil
}

// enter moves the processes of the session that are not there into a v1 group or below it.
func (g *Group) enter(dir string) error {
	if g.tracked == "" {
		return nil
	}
	c := process.OpenCgroup(g.tracked)
	defer c.Close()
	for range 100 {
		in := map[int]bool{}
		for _, pid := range procsBelow(dir) {
			in[pid] = true
		}
		moved := false
		for _, pid := range c.Procs() {
			if in[pid] {
				continue
			}
			moved = true
			if err := put(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
		if !moved {
			return nil
		}
	}
	return errors.New(dir + ": the processes of the session fork faster than they can be moved")
}

// procsBelow lists the processes in a v1 group and in the groups below it.
func procsBelow(dir string) (pids []int) {
	for _, word := range strings.Fields(string(content(dir, "cgroup.procs"))) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			pids = append(pids, procsBelow(filepath.Join(dir, e.Name()))...)
		}
	}
	return pids
}

// RemoveEmpty removes the groups if no process is in them, and reports whether it did. The group in
// the v2 tree is not its own and stays.
func (g *Group) RemoveEmpty() bool {
	if g == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for controller, dir := range g.v1 {
		if err := rmdir(dir); err != nil {
			return false
		}
		if g.parent == nil {
			os.Remove(filepath.Dir(dir)) // fails while other sessions have groups there
		}
		delete(g.v1, controller)
	}
	return true
}

// rmdir removes a group and the groups below it.
func rmdir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := rmdir(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && err != unix.ENOENT {
		return &os.PathError{Op: "remove cgroup", Path: dir, Err: err}
	}
	return nil
}
