package isolation

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/confine"
	"github.com/trl-dev/trl/internal/process"
)

// system are the directories that every program may read.
var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu",
	"/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm",
}

// rootFiles are system files that only root may read. An isolated session of root must not read them.
var rootFiles = []string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssl/private", "/etc/kubernetes",
	"/etc/rancher", "/etc/NetworkManager/system-connections", "/etc/krb5.keytab", "/etc/ipsec.secrets", "/etc/wireguard", "/etc/letsencrypt", "/etc/trl",
}

// devices are those of a session without a /dev of its own.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// sharedMemory is where the C library keeps POSIX shared memory and semaphores. Without a tree of its own, a
// session has none unless it lists the directory: a rule for it would also be one for the memory that other
// programs of the user share, whose names inotify reveals.
const sharedMemory = "/dev/shm"

// The kernels that introduced features of Landlock, for messages.
const (
	needsTruncate = "needs Linux 6.2 or later"
	needsScopes   = "needs Linux 6.12 or later"
	noLandlock    = "needs Landlock (Linux 5.13 or later, with landlock among the lsm= of the kernel)"
)

// NewPlan finds out how to enforce the isolation of a request. It fails if a required part cannot be.
func NewPlan(r Request) (Plan, error) {
	var p paths
	var err error
	if r.limited() {
		if p, err = r.resolve(); err != nil {
			return Plan{}, err
		}
		if err = os.MkdirAll(r.Private, 0o700); err == nil {
			r.Private, err = filepath.EvalSymlinks(r.Private)
		}
		if err != nil {
			return Plan{}, err
		}
	} else {
		p.secrets = outermost(realPaths(append([]string{r.Runner}, r.Secrets...)))
		for _, dir := range realPaths([]string{r.WorkingDir}) {
			if err = daemonPath("working_dir", dir, p.secrets); err != nil {
				return Plan{}, err
			}
		}
	}
	version := confine.LandlockVersion()
	if withoutScopes {
		version = min(version, 5)
	}
	var plan Plan
	var why error
	for _, namespaces := range r.levels(p) {
		plan = r.plan(p, version, namespaces, why)
		if namespaces == 0 {
			break
		}
		if r.limited() {
			if err = r.makePrivate(); err != nil {
				return Plan{}, err
			}
		}
		if r.Memo != "" {
			plan.memo = r.Memo + "." + process.BootID() + "." + strconv.FormatUint(uint64(namespaces), 16)
		}
		if _, err := os.Stat(plan.memo); plan.memo != "" && err == nil {
			break
		}
		if why = confine.Trial(r.Start, plan.Isolation); why == nil {
			if plan.memo != "" {
				_ = os.WriteFile(plan.memo, nil, 0o600)
			}
			break
		}
	}
	if !r.BestEffort {
		if err = r.unavailable(plan); err != nil {
			return plan, err
		}
	}
	if r.limited() {
		return plan, r.makePrivate()
	}
	return plan, nil
}

// withoutNamespaces and withoutScopes, which Landlock has since version 6, are set by tests.
var withoutNamespaces, withoutScopes bool

// levels returns the namespaces to try, the best first; 0 for none.
func (r *Request) levels(p paths) []uintptr {
	want := uintptr(0)
	if r.limited() {
		want |= unix.CLONE_NEWNS | unix.CLONE_NEWIPC
	} else if len(p.secrets) > 0 {
		want |= unix.CLONE_NEWNS
	}
	if !r.online() {
		want |= unix.CLONE_NEWNET
	}
	switch {
	case want == 0 || withoutNamespaces:
		return []uintptr{0}
	case os.Geteuid() == 0:
		return []uintptr{want, want | unix.CLONE_NEWUSER, 0}
	}
	return []uintptr{want | unix.CLONE_NEWUSER, 0}
}

func (r *Request) online() bool {
	return r.Isolation.Network == "" || r.Isolation.Network == api.NetworkAll
}

// makePrivate makes the directories for the temporary files.
func (r *Request) makePrivate() error {
	for _, d := range []string{r.Private, r.tmp(), r.home()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	return nil
}

func (r *Request) tmp() string  { return filepath.Join(r.Private, "tmp") }
func (r *Request) home() string { return filepath.Join(r.Private, "home") }

// plan returns the plan with these namespaces. why says why there are no better ones.
func (r *Request) plan(p paths, version int, namespaces uintptr, why error) Plan {
	c := &confine.Isolation{Namespaces: namespaces, Landlock: version, Door: r.Isolation.Network == api.NetworkAllow && namespaces&unix.CLONE_NEWNET != 0}
	plan := Plan{Isolation: c, Report: api.IsolationReport{Enforced: []api.EnforcedAspect{}, NotEnforced: []api.UnenforcedAspect{}}}
	noNamespaces := "needs namespaces, which the system does not allow here"
	if why != nil {
		noNamespaces += " (" + why.Error() + ")"
	}
	view, net, own := namespaces&unix.CLONE_NEWNS != 0, namespaces&unix.CLONE_NEWNET != 0, r.Isolation.Processes == api.ProcessesOwn
	c.OwnProcesses = own
	c.Scoped, c.NoIPC = version >= 6 && (own || r.limited()), namespaces&unix.CLONE_NEWIPC == 0
	noUnix := r.limited() && !(view && (version >= 6 || net))
	if !r.limited() && len(p.secrets) > 0 {
		if view {
			r.whole(c, p)
		}
		if why := r.reachesDaemon(p, version, view, noNamespaces); why != "" && !r.online() {
			noUnix = true
		} else if why != "" {
			plan.missing(api.AspectSockets, why)
		}
	}
	if r.limited() {
		c.Confined = version > 0
		if view {
			r.view(&plan, p)
		} else {
			r.rules(&plan, p)
		}
		r.reportFiles(&plan, p, version, view, noNamespaces)
		switch {
		case noUnix:
			plan.enforced(api.AspectSockets, mechanismSeccomp)
		case net:
			plan.enforced(api.AspectSockets, mechanismMount, mechanismNet)
		default:
			plan.enforced(api.AspectSockets, mechanismMount, mechanismLandlock)
		}
	}
	if !noUnix {
		c.Families = append(c.Families, unix.AF_UNIX)
	}
	if !net && r.Isolation.Network == api.NetworkAllow && r.BestEffort && r.Proxy != nil && version >= 4 {
		if port, err := r.Proxy(); err == nil {
			c.ConnectPort, plan.ProxyAddress = port, "127.0.0.1:"+strconv.Itoa(port)
		}
	}
	if r.online() || net || c.ConnectPort > 0 {
		c.Families = append(c.Families, unix.AF_INET, unix.AF_INET6)
	}
	c.Families = append(c.Families, unix.AF_NETLINK)
	switch {
	case r.online():
	case c.Door:
		plan.ProxyAddress = confine.ProxyAddress
		plan.enforced(api.AspectNetwork, mechanismNet, mechanismSeccomp, mechanismProxy)
	case c.ConnectPort > 0:
		plan.missing(api.AspectNetwork, "network allow "+noNamespaces+"; without them, Landlock and seccomp still allow TCP connections to the proxy's port number on any machine, and listening on ports that the kernel chooses")
	case r.Isolation.Network == api.NetworkAllow:
		plan.missing(api.AspectNetwork, "network allow "+noNamespaces+"; the session has no network")
	case net:
		plan.enforced(api.AspectNetwork, mechanismNet, mechanismSeccomp)
	default:
		plan.enforced(api.AspectNetwork, mechanismSeccomp)
	}
	if own {
		r.reportProcesses(&plan, version, r.limited() && view && namespaces&unix.CLONE_NEWUSER == 0)
	}
	plan.enforced(api.AspectPrivileges, mechanismNoNew, mechanismSeccomp, mechanismCaps)
	return plan
}

// reachesDaemon says why a session with all files can use the daemon, which starts programs without
// isolation; empty if it cannot.
func (r *Request) reachesDaemon(p paths, version int, view bool, noNamespaces string) string {
	const reason = "the session can reach the daemon or its runner, which start programs without isolation: "
	switch {
	case !view:
		return reason + "hiding their files " + noNamespaces
	case version == 0:
		return reason + "through /proc; preventing that " + noLandlock
	}
	for _, s := range p.secrets {
		if st, err := os.Stat(s); err == nil && st.Mode()&os.ModeSocket != 0 {
			return reason + "the daemon creates its socket anew when it starts; to hide it, put it into a directory of its own, such as runtime_dir"
		}
	}
	return ""
}

func (r *Request) reportFiles(plan *Plan, p paths, version int, view bool, noNamespaces string) {
	switch {
	case view && version > 0:
		plan.enforced(api.AspectFiles, mechanismLandlock, mechanismMount)
	case version >= 3:
		plan.enforced(api.AspectFiles, mechanismLandlock)
	case version > 0:
		plan.missing(api.AspectFiles, "files outside can be truncated; preventing that "+needsTruncate+", or namespaces")
	default:
		plan.missing(api.AspectFiles, noLandlock)
	}
	if single := slices.Concat(p.hidden, p.secrets, p.readOnly); len(single) > 0 {
		deep := slices.ContainsFunc(single, func(path string) bool {
			return slices.ContainsFunc(p.writable, func(w string) bool { return inside(path, w) })
		})
		switch {
		case view:
			plan.enforced(api.AspectPaths, mechanismMount)
			for _, path := range single {
				if st, err := os.Stat(path); err == nil && !st.IsDir() {
					plan.missing(api.AspectReplaced, "a new file that a program outside renames to "+path+", as editors do, is visible to running processes; list its directory instead")
					break
				}
			}
		case !deep && version > 0:
			plan.enforced(api.AspectPaths, mechanismLandlock)
		default:
			plan.missing(api.AspectPaths, "a path inside a writable one "+noNamespaces)
		}
	}
	if view {
		plan.enforced(api.AspectTmp, mechanismMount)
		plan.enforced(api.AspectAttributes, mechanismMount)
		return
	}
	if version > 0 {
		plan.enforced(api.AspectTmp, mechanismLandlock)
	} else {
		plan.missing(api.AspectTmp, noLandlock)
	}
	plan.missing(api.AspectAttributes, "hiding the names and attributes of files outside, and protecting them from chmod, "+noNamespaces)
}

func (r *Request) reportProcesses(plan *Plan, version int, proc bool) {
	switch {
	case version >= 6:
		plan.enforced(api.AspectProcesses, mechanismLandlock, mechanismSeccomp)
		plan.enforced(api.AspectSignals, mechanismLandlock, mechanismSeccomp)
	case version > 0:
		plan.enforced(api.AspectProcesses, mechanismLandlock, mechanismSeccomp)
		plan.missing(api.AspectSignals, "the session can signal other processes of the user; preventing that "+needsScopes)
	default:
		plan.missing(api.AspectProcesses, "needs Landlock (Linux 5.13 or later)")
		plan.missing(api.AspectSignals, needsScopes)
	}
	if proc && version > 0 {
		plan.enforced(api.AspectProcessList, mechanismProc, mechanismLandlock)
		return
	}
	plan.missing(api.AspectProcessList, "the names and arguments of other processes are visible: to hide them, the daemon must be root and files workspace or read-only")
}

// view fills in the tree that the processes see, and the rules for it.
func (r *Request) view(plan *Plan, p paths) {
	c := plan.Isolation
	add := func(kind confine.MountKind, path, from string, may confine.Access) {
		c.View = append(c.View, confine.Mount{Path: path, Kind: kind, From: from})
		if may != "" {
			c.Files = append(c.Files, confine.Rule{Path: path, May: may})
		}
	}
	c.Files = append(c.Files, confine.Rule{Path: "/", May: confine.MayList}) // the root of this tree
	for _, d := range system {
		if to, err := os.Readlink(d); err == nil {
			add(confine.MountLink, d, to, "")
		} else if _, err := os.Stat(d); err == nil {
			add(confine.MountRead, d, "", confine.MayRead)
		}
	}
	if to, err := os.Readlink("/var/run"); err == nil {
		add(confine.MountLink, "/var/run", to, "")
	}
	add(confine.MountProc, "/proc", "", confine.MayRead)
	add(confine.MountDev, "/dev", "", confine.MayUse)
	c.Files = append(c.Files, confine.Rule{Path: sharedMemory, May: confine.MayWrite})
	add(confine.MountWrite, "/tmp", r.tmp(), confine.MayWrite)
	add(confine.MountWrite, "/var/tmp", r.tmp(), confine.MayWrite)
	if home, err := filepath.EvalSymlinks(r.Home); err == nil && !slices.ContainsFunc(append(slices.Clone(system), "/proc", "/dev", "/sys", "/tmp", "/var/tmp"), func(d string) bool { return inside(home, d) || inside(d, home) }) {
		add(confine.MountWrite, home, r.home(), confine.MayWrite)
		if home != r.Home {
			add(confine.MountLink, r.Home, home, "")
		}
	}
	for link, to := range p.links {
		add(confine.MountLink, link, to, "")
	}
	if to, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil && !inside(to, "/etc") && !inside(to, "/usr") {
		add(confine.MountRead, to, "", confine.MayRead)
	}
	for _, path := range p.readable {
		add(confine.MountRead, path, "", confine.MayRead)
	}
	for _, path := range p.writable {
		if path != sharedMemory { // this tree has its own
			add(confine.MountWrite, path, "", confine.MayWrite)
		}
	}
	if r.Channel != "" {
		add(confine.MountWrite, r.Channel, "", confine.MayChange)
	}
	for _, path := range p.readOnly {
		add(confine.MountRead, path, "", "")
	}
	c.View = append(c.View, pins(c.View, p)...)
	hide(c, p.hidden, slices.Concat(p.secrets, systemSecrets()))
	// A directory comes before its entries, and of two mounts at one path the later one counts.
	depth := func(path string) int { return strings.Count(strings.TrimSuffix(path, "/"), "/") }
	slices.SortStableFunc(c.View, func(a, b confine.Mount) int { return cmp.Compare(depth(a.Path), depth(b.Path)) })
}

// whole fills in the tree of a session with all files: that of the system, without the daemon's files.
func (r *Request) whole(c *confine.Isolation, p paths) {
	c.View = append(c.View, confine.Mount{Path: "/", Kind: confine.MountWhole})
	for _, path := range p.secrets {
		m := confine.Mount{Path: path, Kind: confine.MountHidden}
		var st unix.Stat_t
		// The session may rename the directories above. It cannot rename a file that is hidden from it, so
		// a file that is missing from its directory was removed by a program outside.
		if unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			m.Inode = st.Ino
		} else if unix.Stat(filepath.Dir(path), &st) == nil {
			m.DirInode, m.Optional = st.Ino, true
		}
		c.View = append(c.View, m)
	}
	if r.Isolation.Processes == api.ProcessesOwn {
		// Some files of other processes of the user need no right to trace, such as oom_score_adj.
		c.View = append(c.View, confine.Mount{Path: "/proc", Kind: confine.MountRead})
	}
	for _, path := range realPaths([]string{r.Channel}) {
		c.View = append(c.View, confine.Mount{Path: path, Kind: confine.MountWrite})
	}
}

// outermost returns the paths that are not inside another one, each once.
func outermost(list []string) (out []string) {
	slices.Sort(list)
	for _, path := range list { // a directory comes before its entries
		if !slices.ContainsFunc(out, func(o string) bool { return inside(path, o) }) {
			out = append(out, path)
		}
	}
	return out
}

// hide hides the paths that appear in the tree. Those of optional may be missing later.
func hide(c *confine.Isolation, paths, optional []string) {
	all := slices.Concat(paths, optional)
	for i, path := range all {
		in := cover(c.View, path)
		if in.From != "" || in.Kind != confine.MountRead && in.Kind != confine.MountWrite {
			continue // it does not appear
		}
		if slices.ContainsFunc(all, func(h string) bool { return h != path && inside(path, h) && len(h) >= len(in.Path) }) {
			continue // its directory does not appear
		}
		c.View = append(c.View, confine.Mount{Path: path, Kind: confine.MountHidden, Optional: i >= len(paths)})
	}
}

// cover returns the mount through which a path appears.
func cover(view []confine.Mount, path string) (in confine.Mount) {
	for _, m := range view {
		if m.Kind != confine.MountLink && m.Kind != confine.MountHidden && m.Kind != confine.MountPinned && inside(path, m.Path) && len(m.Path) >= len(in.Path) {
			in = m
		}
	}
	return in
}

// pins returns mounts for the directories that contain a mount, or a path that is hidden or read-only,
// where the session could rename them: in its private directories and in writable ones. Otherwise a
// program could move the directory away and put another one in its place for later processes.
func pins(view []confine.Mount, p paths) (pinned []confine.Mount) {
	var dirs []string
	for _, m := range view {
		if in := cover(view, filepath.Dir(m.Path)); in.Kind == confine.MountWrite && in.From != "" && m.Kind != confine.MountLink {
			dirs = append(dirs, between(in.Path, m.Path)...)
		}
	}
	for _, path := range slices.Concat(p.hidden, p.secrets, p.readOnly) {
		for _, w := range p.writable {
			if inside(path, w) {
				dirs = append(dirs, between(w, path)...)
			}
		}
	}
	slices.Sort(dirs)
	for _, d := range slices.Compact(dirs) {
		pinned = append(pinned, confine.Mount{Path: d, Kind: confine.MountPinned})
	}
	return pinned
}

// rules fills in the rules without a tree of its own. Landlock rules only add rights, so a readable
// directory that contains a hidden path is replaced by its other entries.
func (r *Request) rules(plan *Plan, p paths) {
	c := plan.Isolation
	add := func(path string, may confine.Access) { c.Files = append(c.Files, confine.Rule{Path: path, May: may}) }
	hidden := slices.Concat(p.hidden, p.secrets, systemSecrets())
	var read func(dir string)
	read = func(dir string) {
		switch {
		case slices.Contains(hidden, dir):
			return
		case !slices.ContainsFunc(hidden, func(h string) bool { return inside(h, dir) }):
			add(dir, confine.MayRead)
			return
		}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.Type()&os.ModeSymlink == 0 {
				read(filepath.Join(dir, e.Name()))
			}
		}
	}
	for _, d := range slices.Concat(existing(system), p.readable) {
		if to, err := filepath.EvalSymlinks(d); err == nil && to == d {
			read(d)
		}
	}
	add("/proc", confine.MayRead)
	if to, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil {
		add(to, confine.MayRead)
	}
	for _, d := range devices {
		add(d, confine.MayUse)
	}
	for _, d := range p.writable {
		add(d, confine.MayWrite)
	}
	if r.Channel != "" {
		add(r.Channel, confine.MayChange)
	}
	add(r.tmp(), confine.MayWrite)
	plan.Env = append(plan.Env, "TMPDIR="+r.tmp())
}

func existing(list []string) (found []string) {
	for _, path := range list {
		if _, err := os.Stat(path); err == nil {
			found = append(found, path)
		}
	}
	return found
}

// systemSecrets returns the real paths of the files that only root may read.
func systemSecrets() []string {
	keys, _ := filepath.Glob("/etc/ssh/ssh_host_*_key")
	return realPaths(append(keys, rootFiles...))
}
