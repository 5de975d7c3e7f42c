package vt

const (
	maxParams = 32
	maxParam  = 1<<31 - 1
)

// params are the numbers of a sequence. One that is left out is 0; of a list with colons the first is a number like others, the rest are its
// sub-parameters, and of those one that is left out is -1.
type params struct {
	n     int // numbers; at least 1
	subs  int // sub-parameters of all of them
	value [maxParams]int32
	upTo  [maxParams]uint8 // sub-parameters of the numbers up to and including this one
	sub   [maxParams]int32

	inSub    bool // digits belong to a sub-parameter
	full     bool // too many numbers: the rest is ignored
	fullSubs bool // too many sub-parameters: likewise
}

func (p *params) reset() {
	p.n, p.subs = 1, 0
	p.value[0], p.upTo[0] = 0, 0
	p.inSub, p.full, p.fullSubs = false, false, false
}

// add takes a digit, a semicolon or a colon.
func (p *params) add(c byte) {
	switch c {
	case ';':
		p.inSub = false
		p.fullSubs = false
		if p.n == maxParams {
			p.full = true
			return
		}
		p.value[p.n], p.upTo[p.n] = 0, uint8(p.subs)
		p.n++
	case ':':
		if p.full {
			return
		}
		p.inSub = true
		if p.subs == maxParams {
			p.fullSubs = true
			return
		}
		p.sub[p.subs] = -1
		p.subs++
		p.upTo[p.n-1] = uint8(p.subs)
	default:
		p.digit(int64(c - '0'))
	}
}

func (p *params) digit(d int64) {
	at := &p.value[p.n-1]
	if p.full || p.inSub && p.fullSubs {
		return
	}
	if p.inSub {
		at = &p.sub[p.subs-1]
		if *at < 0 {
			*at = 0
		}
	}
	*at = int32(min(int64(*at)*10+d, maxParam))
}

// at is number i, 0 when it was not given.
func (p *params) at(i int) int {
	if i >= p.n {
		return 0
	}
	return int(p.value[i])
}

// count is number i where 0 means 1.
func (p *params) count(i int) int { return max(p.at(i), 1) }

// subsOf is the sub-parameters of number i.
func (p *params) subsOf(i int) []int32 {
	if i >= p.n {
		return nil
	}
	from := 0
	if i > 0 {
		from = int(p.upTo[i-1])
	}
	return p.sub[from:p.upTo[i]]
}
