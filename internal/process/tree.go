package process

// Descendants lists the living processes below root, parents before their
// children, root itself left out. Where skip is not nil and says true, that process
// and everything below it is left out too. Zombies are not listed. (They have no
// children: those went to the next subreaper.)
//
// The list is a walk over something that moves: a process that is handed to
// another parent during the walk may be missed. Ladder repeats the walk until it
// gives the same twice.
func Descendants(root int, skip func(Info) bool) []Info {
	walks <- struct{}{}
	defer func() { <-walks }()
	w := newWalk(skip)
	w.below(root)
	return w.live
}

// walks bounds how many walks there are at once, and so how many threads they can take:
// a process in trouble can hold up who reads its files in /proc.
var walks = make(chan struct{}, 2)

// walk is one pass over parts of the process tree.
type walk struct {
	table *table // nil: each process is looked at when the walk comes to it
	skip  func(Info) bool
	seen  map[int]bool
	// live are the processes found, parents first.
	live []Info
	// pids are all that were met and not skipped, zombies and just vanished ones
	// included. Two walks with the same pids had nothing move between them.
	pids []int
}

// table is a snapshot of all processes, for systems that cannot be asked for the
// children of one.
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

// below visits everything below a process, which itself is not visited.
func (w *walk) below(pid int) {
	w.seen[pid] = true
	type node struct{ pid, threads int }
	queue := []node{{pid, manyThreads}}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, child := range w.children(n.pid, n.threads) {
			if w.seen[child] {
				continue
			}
			w.seen[child] = true
			info, threads, ok := w.stat(child)
			switch {
			case ok && !w.seen[info.PPID]:
				// Its parent is nobody we met: the id was given away, or the
				// process was adopted from outside between the two looks at it.
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
	}
}

// include visits a process and everything below it, unless it has ended, its id
// belongs to another one now, or the walk has met it already.
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

// includeGroups visits the members of process groups, given with the session they
// are in. A member stays in its group when its parents are gone, so this finds
// orphans where no subreaper does. It needs a table to be cheap.
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
