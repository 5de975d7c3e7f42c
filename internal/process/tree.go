package process

// Descendants returns the living descendants of root, without root itself, parents before their
// children. If skip is not nil and returns true for a process, that process and its descendants
// are left out. Zombies are not listed. (They have no children: a subreaper has adopted those.)
//
// Processes change during the walk, so it may miss one that gets another parent meanwhile. Ladder
// repeats the walk until two walks agree.
func Descendants(root int, skip func(Info) bool) []Info {
	walks <- struct{}{}
	defer func() { <-walks }()
	w := newWalk(skip)
	w.below(root)
	return w.live
}

// Descendants is the function Descendants for the watched process. It needs one system call for the
// list of its children, where the function reads a list for each of its threads.
func (c *ChildWatch) Descendants(skip func(Info) bool) []Info {
	walks <- struct{}{}
	defer func() { <-walks }()
	w := newWalk(skip)
	if w.table != nil {
		w.below(c.pid)
	} else {
		w.from(c.pid, c.List(nil))
	}
	return w.live
}

// walks limits the number of concurrent walks, and so the number of threads that they can block: a
// process that hangs in the kernel can block the readers of its files in /proc.
var walks = make(chan struct{}, 2)

// walk is one pass over parts of the process tree.
type walk struct {
	table *table // nil: each process is read when the walk reaches it
	skip  func(Info) bool
	seen  map[int]bool
	// live has the living processes that were found, parents first.
	live []Info
	// pids has all processes that were found and not skipped, including zombies and processes
	// that ended during the walk. If two walks have the same pids, the tree has not changed
	// between them.
	pids []int
}

// table is a snapshot of all processes, for systems that cannot list the children of one process.
type table struct {
	info     map[int]Info
	children map[int][]int
}

func makeTable(infos []Info) *table {
	t := &table{info: make(map[int]Info, len(infos)), children: make(map[int][]int)}
	for _, i := range infos {
		t.info[i.PID] = i
		t.children[i.PPID] = append(t.children[i.PPID], i.PID)
	}
	return t
}

func newWalk(skip func(Info) bool) *walk {
	return &walk{table: readTable(), skip: skip, seen: make(map[int]bool)}
}

// below visits all descendants of a process, but not the process itself.
func (w *walk) below(pid int) { w.from(pid, w.children(pid, manyThreads)) }

// from is below for a process whose children are known.
func (w *walk) from(pid int, children []int) {
	w.seen[pid] = true
	type node struct{ pid, threads int }
	for queue := []node(nil); ; {
		for _, child := range children {
			if w.seen[child] {
				continue
			}
			w.seen[child] = true
			info, threads, ok := w.stat(child)
			switch {
			case ok && !w.seen[info.PPID]:
				// The walk has not met its parent: after the list of children was read, the
				// process was adopted by a process outside, or its id was reused.
				ok = false
			case ok && w.skip != nil && w.skip(info):
				continue
			}
			w.pids = append(w.pids, child)
			if !ok || info.Ended() {
				continue
			}
			w.live = append(w.live, info)
			queue = append(queue, node{child, threads})
		}
		if len(queue) == 0 {
			return
		}
		children = w.children(queue[0].pid, queue[0].threads)
		queue = queue[1:]
	}
}

// include visits a process and its descendants, unless it has ended, another process has its id
// now, or the walk has already met it.
func (w *walk) include(i Info) {
	if w.seen[i.PID] {
		return
	}
	now, _, ok := w.stat(i.PID)
	if !ok || !now.same(i) || now.Ended() {
		return
	}
	w.pids = append(w.pids, i.PID)
	w.live = append(w.live, now)
	w.below(i.PID)
}

// includeGroups visits the members of process groups, given as group → session. A process stays in
// its group when its parents have ended, so this finds orphans without a subreaper. It does
// nothing without a table, because it would be expensive.
func (w *walk) includeGroups(groups map[int]int) {
	if w.table == nil {
		return
	}
	for _, i := range w.table.info {
		if sid, ok := groups[i.PGID]; ok && sid == i.SID && (w.skip == nil || !w.skip(i)) {
			w.include(i)
		}
	}
}

func (w *walk) children(pid, threads int) []int {
	if w.table != nil {
		return w.table.children[pid]
	}
	return children(pid, threads)
}

func (w *walk) stat(pid int) (info Info, threads int, ok bool) {
	if w.table != nil {
		info, ok = w.table.info[pid]
		return info, manyThreads, ok
	}
	return stat(pid)
}
