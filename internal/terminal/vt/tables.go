package vt

// Cells refer to their style and to text of several characters by number. The tables are looked through when they have grown: what no cell
// of the two screens uses is forgotten, so they are never much larger than a screen. Scrollback does not use them.

// styleTable gives equal attributes the same number. Number 0 is the default style.
type styleTable struct {
	attrs   []attr
	numbers map[attr]uint32
	free    []uint32
	recent  [1024]uint32 // by a cheap hash: styles come back often
	limit   int          // numbers in use at which a look through is worth it
}

const (
	leastStyles   = 512
	leastClusters = 256
	cellsPerLook  = 16      // a look through is worth it when every new number in the table pays for so many cells at most
	maxCluster    = 512     // bytes of text in one cell; further combining characters are left out
	maxClusters   = 8 << 20 // bytes in all; likewise
)

func newStyleTable() styleTable {
	return styleTable{attrs: make([]attr, 1, 16), numbers: map[attr]uint32{{}: 0}, limit: leastStyles}
}

func (s *styleTable) intern(a attr) uint32 {
	slot := &s.recent[a.hash()%uint32(len(s.recent))]
	if s.attrs[*slot] == a {
		return *slot
	}
	number, ok := s.numbers[a]
	if !ok {
		if n := len(s.free); n > 0 {
			number = s.free[n-1]
			s.free = s.free[:n-1]
			s.attrs[number] = a
		} else {
			number = uint32(len(s.attrs))
			s.attrs = append(s.attrs, a)
		}
		s.numbers[a] = number
	}
	*slot = number
	return number
}

func (a attr) hash() uint32 {
	h := uint32(a.fg)*0x9e3779b1 ^ uint32(a.bg)*0x85ebca6b ^ uint32(a.flags)*0xc2b2ae35 ^ uint32(a.underline)<<7
	return h ^ h>>15
}

// keep forgets every style but the ones marked, which looking through that many cells has found.
func (s *styleTable) keep(marked []bool, looked int) {
	clear(s.recent[:])
	s.free = s.free[:0]
	live := 1
	for n := len(s.attrs) - 1; n > 0; n-- {
		if marked[n] {
			live++
			continue
		}
		if a := s.attrs[n]; s.numbers[a] == uint32(n) && a != (attr{}) {
			delete(s.numbers, a)
		}
		s.attrs[n] = attr{}
		s.free = append(s.free, uint32(n))
	}
	s.limit = max(leastStyles, 2*live, looked/cellsPerLook)
}

func (s *styleTable) inUse() int { return len(s.attrs) - len(s.free) }

// clusterTable has the text of cells that hold more than one character.
type clusterTable struct {
	texts   []string
	numbers map[string]uint32
	free    []uint32
	bytes   int
	limit   int
}

func newClusterTable() clusterTable {
	return clusterTable{numbers: map[string]uint32{}, limit: leastClusters}
}

// intern is the number of a text, if there is room for it.
func (c *clusterTable) intern(text []byte) (uint32, bool) {
	if number, ok := c.numbers[string(text)]; ok {
		return number, true
	}
	if len(text) > maxCluster || c.bytes+len(text) > maxClusters {
		return 0, false
	}
	s := string(text)
	number := uint32(len(c.texts))
	if n := len(c.free); n > 0 {
		number = c.free[n-1]
		c.free = c.free[:n-1]
		c.texts[number] = s
	} else {
		c.texts = append(c.texts, s)
	}
	c.numbers[s] = number
	c.bytes += len(s)
	return number, true
}

// keep forgets every text but the ones marked.
func (c *clusterTable) keep(marked []bool, looked int) {
	c.free = c.free[:0]
	c.bytes = 0
	for n := len(c.texts) - 1; n >= 0; n-- {
		if marked[n] {
			c.bytes += len(c.texts[n])
			continue
		}
		if c.texts[n] != "" {
			delete(c.numbers, c.texts[n])
			c.texts[n] = ""
		}
		c.free = append(c.free, uint32(n))
	}
	c.limit = max(leastClusters, 2*c.inUse(), looked/cellsPerLook)
}

func (c *clusterTable) inUse() int { return len(c.texts) - len(c.free) }

// settle looks through the tables if they have grown. Only what the screens hold and what is in flight is kept.
func (t *Terminal) settle(inFlight ...[]cell) {
	if t.styles.inUse() <= t.styles.limit && t.clusters.inUse() <= t.clusters.limit && t.clusters.bytes <= maxClusters/2 {
		return
	}
	styles := make([]bool, len(t.styles.attrs))
	clusters := make([]bool, len(t.clusters.texts))
	looked := 0
	mark := func(cells []cell) {
		looked += len(cells)
		for _, c := range cells {
			styles[c.style] = true
			if c.ch&isCluster != 0 {
				clusters[c.ch&chMask] = true
			}
		}
	}
	for _, s := range []*screen{&t.primary, &t.alternate} {
		for _, ln := range s.lines {
			mark(ln.cells)
		}
	}
	for _, cells := range inFlight {
		mark(cells)
	}
	t.styles.keep(styles, looked)
	t.clusters.keep(clusters, looked)
	t.penDirty = true
}
