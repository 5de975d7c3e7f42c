package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trl-dev/trl/api"
)

// List returns a page of the records that match, the newest ones.
func (l *Log) List(ctx context.Context, p api.AuditListParams) (api.AuditListResult, error) {
	limit := p.Limit
	if limit == 0 {
		limit = api.DefaultAuditLimit
	}
	l.resolve(&p.AuditFilter)
	l.write()
	parts, _, _, err := l.files.snapshot()
	if err != nil {
		return api.AuditListResult{}, fmt.Errorf("audit log: %w", err)
	}
	defer closeAll(parts)
	found := []api.AuditRecord{} // the newest first
	more := false
	for i := len(parts) - 1; i >= 0 && !more; i-- {
		text, err := io.ReadAll(parts[i])
		if err != nil {
			return api.AuditListResult{}, fmt.Errorf("audit log: %w", err)
		}
		for rest := bytes.TrimSuffix(text, []byte("\n")); len(rest) > 0 && !more; {
			if ctx.Err() != nil {
				return api.AuditListResult{}, ctx.Err()
			}
			at := bytes.LastIndexByte(rest, '\n') + 1
			var r api.AuditRecord
			ok := json.Unmarshal(rest[at:], &r) == nil && (p.BeforeSeq == 0 || r.Seq < p.BeforeSeq) && matches(&r, &p.AuditFilter)
			rest = rest[:max(at-1, 0)]
			switch {
			case !ok:
			case len(found) == limit:
				more = true
			default:
				found = append(found, r)
			}
		}
	}
	slices.Reverse(found)
	result := api.AuditListResult{Records: found}
	if more {
		result.NextBeforeSeq = found[0].Seq
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	result.LastSeq = l.last
	if l.fault != nil {
		result.Fault = l.fault.Error()
	}
	return result, nil
}

// resolve replaces the names of a filter by ids.
func (l *Log) resolve(p *api.AuditFilter) {
	if l.cfg.Resolve != nil {
		p.SessionID, p.DialogueID = l.cfg.Resolve(p.SessionID, p.DialogueID)
	}
}

// matches reports whether a record is one of those that a caller wants.
func matches(r *api.AuditRecord, p *api.AuditFilter) bool {
	switch {
	case p.Since != nil && r.At.Before(*p.Since),
		p.Method != "" && r.Method != p.Method && !strings.HasPrefix(r.Method, strings.TrimSuffix(p.Method, ".")+"."),
		p.SessionID != "" && r.SessionID != p.SessionID,
		p.DialogueID != "" && r.DialogueID != p.DialogueID,
		p.Caller != "" && !isCaller(r.Caller, p.Caller):
		return false
	}
	switch p.Outcome {
	case "":
		return true
	case api.AuditError:
		return r.Outcome != api.AuditOK && r.Outcome != api.AuditStarted && r.Method != ""
	}
	return r.Outcome == p.Outcome
}

func isCaller(c *api.Caller, word string) bool {
	if c == nil {
		return false
	}
	return slices.Contains([]string{c.Transport, c.Address, c.LoginID, c.Label, strconv.Itoa(c.PID)}, word) ||
		c.Token != "" && strings.HasPrefix(c.Token, word)
}

// Wait returns when there is a record after this one.
func (l *Log) Wait(ctx context.Context, after int64) error {
	for {
		l.mu.Lock()
		last, changed := l.last, l.changed
		l.mu.Unlock()
		if last > after {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Last returns the number of the last record.
func (l *Log) Last() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Read returns some of the records after this one, in order; none if there are none yet. The first
// may have a higher number than the next one, if that is no longer kept.
func (l *Log) Read(after int64) ([]api.AuditRecord, error) {
	l.mu.Lock()
	if len(l.recent) > 0 && l.recent[0].Seq <= after+1 || after >= l.last {
		defer l.mu.Unlock()
		i, _ := slices.BinarySearchFunc(l.recent, after+1, func(r api.AuditRecord, seq int64) int { return int(r.Seq - seq) })
		return slices.Clone(l.recent[i:]), nil
	}
	l.mu.Unlock()
	parts, _, _, err := l.files.snapshot()
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	defer closeAll(parts)
	for i, p := range parts {
		if i+1 < len(parts) && firstOf(parts[i+1]) <= after+1 {
			continue // all of its records are older
		}
		var found []api.AuditRecord
		lines := newLines(p)
		for lines.Scan() && len(found) < maxRecent {
			var r api.AuditRecord
			if json.Unmarshal(lines.Bytes(), &r) == nil && r.Seq > after {
				found = append(found, r)
			}
		}
		if len(found) > 0 || lines.Err() != nil {
			return found, lines.Err()
		}
	}
	return nil, nil
}

// firstOf returns the number of the first record of a file.
func firstOf(p part) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(filepath.Base(p.file.Name()), suffix), 10, 64)
	return n
}

func newLines(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	return s
}

// Verify checks the chain of the log, and that it ends where this daemon ended it.
func (l *Log) Verify(context.Context) (api.AuditVerifyResult, error) {
	l.write()
	parts, seq, hash, err := l.files.snapshot()
	if err != nil {
		return api.AuditVerifyResult{}, fmt.Errorf("audit log: %w", err)
	}
	defer closeAll(parts)
	r, err := verify(parts)
	if err == nil && r.OK && (r.LastSeq != seq || r.LastHash != hash) {
		r.OK = false
		r.Broken = &api.AuditFault{Reason: fmt.Sprintf("the log ends with record %d, and the daemon has written %d", r.LastSeq, seq)}
		if n := len(parts); n > 0 {
			r.Broken.File = parts[n-1].file.Name()
		}
	}
	return r, err
}

// Verify checks the chain of the files in a directory, such as a copy.
func Verify(dir string) (api.AuditVerifyResult, error) {
	parts, err := openAll(dir)
	if err != nil {
		return api.AuditVerifyResult{}, fmt.Errorf("audit log: %w", err)
	}
	defer closeAll(parts)
	return verify(parts)
}

// verify checks the chain of files. The oldest ones may have been removed by rotation.
func verify(parts []part) (api.AuditVerifyResult, error) {
	result := api.AuditVerifyResult{}
	for _, p := range parts {
		lines := newLines(p)
		n := 0
		broken := func(format string, args ...any) (api.AuditVerifyResult, error) {
			result.Broken = &api.AuditFault{File: p.file.Name(), Line: n, Reason: fmt.Sprintf(format, args...)}
			return result, nil
		}
		for lines.Scan() {
			n++
			r, err := check(lines.Bytes())
			switch {
			case err != nil:
				return broken("%s", err)
			case result.Records == 0:
				if r.Seq != firstOf(p) {
					return broken("has record %d, and the file begins with %d", r.Seq, firstOf(p))
				}
				if r.Seq == 1 && r.Prev != "" {
					return broken("the first record names a record before it")
				}
				result.FirstSeq = r.Seq
			case r.Seq != result.LastSeq+1:
				return broken("has record %d after record %d", r.Seq, result.LastSeq)
			case r.Prev != result.LastHash:
				return broken("does not follow from the line before: that one was changed, or a line was removed")
			}
			result.Records++
			result.LastSeq, result.LastHash = r.Seq, r.Hash
		}
		if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
			n++
			return broken("is too long")
		} else if err != nil {
			return result, fmt.Errorf("audit log: %w", err)
		}
	}
	result.OK = true
	return result, nil
}

// check reads one line and compares its hash.
func check(line []byte) (api.AuditRecord, error) {
	var r api.AuditRecord
	at := len(line) - len(hashField) - 64 - len(hashEnd)
	if at < 0 || !bytes.HasPrefix(line[at:], []byte(hashField)) || !bytes.HasSuffix(line, []byte(hashEnd)) {
		return r, errors.New("is not a record with a hash at its end")
	}
	body := append(bytes.Clone(line[:at]), '}')
	if err := json.Unmarshal(line, &r); err != nil {
		return r, errors.New("is not a record")
	}
	if digest(body) != string(line[at+len(hashField):len(line)-len(hashEnd)]) {
		return r, errors.New("was changed: its hash does not match")
	}
	return r, nil
}
