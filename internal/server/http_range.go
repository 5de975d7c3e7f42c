package server

import (
	"strconv"
	"strings"

	"github.com/trl-dev/trl/api"
)

// byteRange is one range of a Range header, as it was written.
type byteRange struct {
	first int64 // -1 when only the last bytes are asked for
	last  int64 // inclusive; -1 for the end. If first is -1: how many bytes
}

// parseRange reads a Range header (RFC 9110, 14.1). A range in other units than bytes must be
// ignored: ok is then false, without an error.
func parseRange(header string) (r byteRange, ok bool, cause *api.Error) {
	unit, spec, found := strings.Cut(header, "=")
	if !found || !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		return r, false, nil
	}
	if strings.Contains(spec, ",") {
		return r, false, api.Errorf(api.CodeInvalidParams, "header Range: has several ranges; send one request for each")
	}
	bad := api.Errorf(api.CodeInvalidParams, "header Range: %q is not bytes=FIRST-LAST, bytes=FIRST- or bytes=-COUNT", shortened(header))
	first, last, found := strings.Cut(strings.TrimSpace(spec), "-")
	if !found || first == "" && last == "" {
		return r, false, bad
	}
	r = byteRange{-1, -1}
	for _, part := range []struct {
		text string
		to   *int64
	}{{first, &r.first}, {last, &r.last}} {
		if part.text == "" {
			continue
		}
		// ParseInt would also take a sign.
		n, err := strconv.ParseUint(part.text, 10, 63)
		if err != nil {
			return r, false, bad
		}
		*part.to = int64(n)
	}
	if r.first >= 0 && r.last >= 0 && r.last < r.first {
		return r, false, bad
	}
	return r, true, nil
}

// within returns the bytes [first, last) of a stream that has total bytes, and whether
// there is at least one.
func (r byteRange) within(total int64) (first, last int64, ok bool) {
	switch {
	case r.first < 0: // the last bytes
		return max(0, total-r.last), total, total > 0 && r.last > 0
	case r.last < 0 || r.last >= total:
		return r.first, total, r.first < total
	}
	return r.first, r.last + 1, true
}
