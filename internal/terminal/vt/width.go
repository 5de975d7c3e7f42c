package vt

import "sync"

// width is how many columns a character takes: 0 when it combines with the one before, otherwise 1 or 2.
func width(r rune) int {
	if r < 0x300 {
		return 1
	}
	return int(widths.blocks[widths.pages[r>>8]][r&0xff])
}

// widths has for each 256 characters the number of a block with their widths. Blocks 0, 1 and 2 are those whose characters are all alike.
// It is made with the first terminal: a process that has none does without.
var widths *widthTable

var loadWidths = sync.OnceFunc(func() { widths = newWidthTable() })

type widthTable struct {
	pages  [0x1100]uint8
	blocks [][256]uint8
}

func newWidthTable() *widthTable {
	t := &widthTable{blocks: make([][256]uint8, 3, 96)}
	for w := range t.blocks {
		for i := range t.blocks[w] {
			t.blocks[w][i] = uint8(w)
		}
	}
	for i := range t.pages {
		t.pages[i] = 1
	}
	for _, r := range zeroWidth {
		t.set(r[0], r[1], 0)
	}
	for _, r := range doubleWidth {
		t.set(r[0], r[1], 2)
	}
	return t
}

func (t *widthTable) set(first, last rune, w uint8) {
	for page := first >> 8; page <= last>>8; page++ {
		from, to := max(first, page<<8), min(last, page<<8|0xff)
		if to-from == 0xff {
			t.pages[page] = w
			continue
		}
		if t.pages[page] < 3 {
			t.blocks = append(t.blocks, t.blocks[t.pages[page]])
			t.pages[page] = uint8(len(t.blocks) - 1)
		}
		block := &t.blocks[t.pages[page]]
		for r := from; r <= to; r++ {
			block[r&0xff] = w
		}
	}
}
