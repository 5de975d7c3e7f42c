package dialogue

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/trl-dev/trl/api"
)

const streamStdin = "stdin"

const (
	defaultLines    = 100
	defaultLineText = 4 << 10
	// typedBytes is how much of a line is searched for its type.
	typedBytes = 64 << 10
)

// Lines returns lines of the protocol between the dialogue and the agent's program, with the events
// that each line of the program caused. It reads only the part of the record that it returns.
func (d *Dialogue) Lines(p api.DialogueLinesParams) (api.DialogueLinesResult, error) {
	d.mu.Lock()
	last, live := d.about.Epoch, d.process != nil
	d.mu.Unlock()
	epoch := cmp.Or(p.Epoch, last)
	if epoch > last {
		return api.DialogueLinesResult{}, api.InvalidParam("epoch", "%d is beyond the last epoch of dialogue %q, which is %d", epoch, d.id, last)
	}
	r, err := d.lines(p, epoch)
	var known *api.Error
	if err != nil && !errors.As(err, &known) {
		return r, api.Errorf(api.CodeInternal, "dialogue %q: lines of process %d: %s", d.id, epoch, err)
	}
	r.Complete = r.NextOffset == r.Total && (epoch < last || !live)
	return r, err
}

func (d *Dialogue) lines(p api.DialogueLinesParams, epoch int) (api.DialogueLinesResult, error) {
	r := api.DialogueLinesResult{DialogueID: d.id, Epoch: epoch, Lines: []api.DialogueLine{}, TotalStdin: d.record.fileBytes(streamStdin, epoch)}
	times, err := d.record.openMoments(epoch)
	if err != nil {
		return r, err
	}
	defer times.close()
	main := api.EventStdout
	if p.Stream == streamStdin {
		main = streamStdin
	}
	file, err := d.openLines(main, epoch, p)
	if err != nil {
		return r, err
	}
	defer file.close()
	r.Total = file.size
	from, limit := p.FromOffset, cmp.Or(p.Limit, defaultLines)
	before := int64(-1)
	if p.BeforeOffset != nil {
		if before = *p.BeforeOffset; before < 0 || before > file.size {
			before = file.size
		}
		if from, err = file.back(before, limit); err != nil {
			return r, err
		}
	}
	if from > file.size {
		return r, api.InvalidParam("from_offset", "%d is beyond the end, which is %d", from, file.size)
	}
	lines, next, err := file.read(from, before, limit)
	if err != nil {
		return r, err
	}
	r.NextOffset = next
	if main == api.EventStdout {
		if err := d.joinEvents(epoch, lines); err != nil {
			return r, err
		}
	}
	for i := range lines {
		if m, ok := times.of(main, lines[i].Offset); ok {
			lines[i].At = &m.at
		}
	}
	r.Lines = append(r.Lines, lines...)
	if p.Stream == "" || p.Stream == "both" {
		r.Lines, err = d.joinInput(r.Lines, times, epoch, p, from, next, next == file.size)
	}
	return r, err
}

// joinInput adds the lines of stdin that were sent while stdout grew from one offset to another;
// with last also the later ones.
func (d *Dialogue) joinInput(lines []api.DialogueLine, times *moments, epoch int, p api.DialogueLinesParams, from, to int64, last bool) ([]api.DialogueLine, error) {
	file, err := d.openLines(streamStdin, epoch, p)
	if err != nil || times.n == 0 {
		return lines, err
	}
	defer file.close()
	begin, end := int64(0), file.size
	if from > 0 {
		if begin = times.stdinAt(from); begin < 0 {
			begin = file.size
		}
	}
	if at := times.stdinAt(to); !last && at >= 0 {
		end = at
	}
	sent, _, err := file.read(begin, end, maxInput)
	if err != nil {
		return lines, err
	}
	joined := make([]api.DialogueLine, 0, len(lines)+len(sent))
	for _, line := range sent {
		m, ok := times.of(streamStdin, line.Offset)
		if !ok {
			continue
		}
		line.At = &m.at
		for len(lines) > 0 && lines[0].Offset < m.stdout {
			joined, lines = append(joined, lines[0]), lines[1:]
		}
		joined = append(joined, line)
	}
	return append(joined, lines...), nil
}

// maxInput is the most lines of stdin on a page of both streams.
const maxInput = 1000

// lineFile reads lines of a file of the record.
type lineFile struct {
	*os.File
	stream string
	size   int64
	most   int // bytes of the text of a line
}

func (d *Dialogue) openLines(stream string, epoch int, p api.DialogueLinesParams) (*lineFile, error) {
	f, err := os.Open(d.record.path(stream, epoch))
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &lineFile{f, stream, info.Size(), cmp.Or(p.CutBytes, defaultLineText)}, nil
}

func (f *lineFile) close() { f.File.Close() }

// back returns where the line begins that is limit lines before an offset.
func (f *lineFile) back(offset int64, limit int) (int64, error) {
	buf := make([]byte, 64<<10)
	for at := offset - 1; at > 0; { // the line end right before the offset ends the last line
		n := min(int64(len(buf)), at)
		if _, err := f.ReadAt(buf[:n], at-n); err != nil {
			return 0, err
		}
		for i := n - 1; i >= 0; i-- {
			if buf[i] == '\n' {
				if limit--; limit == 0 {
					return at - n + i + 1, nil
				}
			}
		}
		at -= n
	}
	return 0, nil
}

// read returns at most limit lines from an offset on that begin before another one; -1: the end.
func (f *lineFile) read(from, before int64, limit int) (lines []api.DialogueLine, next int64, err error) {
	if before < 0 {
		before = f.size
	}
	in := bufio.NewReaderSize(io.NewSectionReader(f, from, f.size-from), 64<<10)
	for next = from; next < before && len(lines) < limit; {
		text, size, whole, err := readLine(in, max(f.most, typedBytes))
		if err != nil {
			return nil, 0, err
		}
		line := api.DialogueLine{Stream: f.stream, Offset: next, Bytes: size, Partial: !whole, Type: typeOf(text), Events: []api.DialogueLineNews{}}
		text = bytes.TrimSuffix(text, []byte("\r"))
		if line.Cut = len(text) > f.most || size > int64(len(text))+2; line.Cut {
			text = text[:min(len(text), f.most)]
		}
		line.Text, line.TextBase64 = api.Text(text)
		lines = append(lines, line)
		next += size
	}
	return lines, next, nil
}

// readLine reads a line, of which it keeps at most that many bytes. size is its length with the line
// end; whole is false if it has none.
func readLine(in *bufio.Reader, most int) (text []byte, size int64, whole bool, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		size += int64(len(piece))
		if err == nil {
			piece = piece[:len(piece)-1]
		}
		text = append(text, piece[:min(len(piece), max(0, most-len(text)))]...)
		switch {
		case err == nil:
			return text, size, true, nil
		case err == io.EOF && size > 0:
			return text, size, false, nil
		case err != bufio.ErrBufferFull:
			return nil, 0, false, err
		}
	}
}

// typeOf returns the type or the method that a line of JSON names. It reads the line only up to the
// type, which mostly comes first: lines can be very long.
func typeOf(line []byte) (method string) {
	in, kind := json.NewDecoder(bytes.NewReader(line)), ""
	_ = eachField(in, func(name string) (bool, error) { // what is not JSON has no type
		var value json.RawMessage
		err := in.Decode(&value)
		switch name {
		case "type":
			_ = json.Unmarshal(value, &kind) // it may be no text
		case "method":
			_ = json.Unmarshal(value, &method)
		}
		return kind == "", err
	})
	return cmp.Or(kind, method)
}
