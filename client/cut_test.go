package client_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

// record is one piece of a log, as a runner has it.
type record struct {
	stream string
	offset int64
	data   []byte
	gone   bool // from some moment on
}

// cutter is a daemon that has one log, and ends every connection somewhere.
type cutter struct {
	random *rand.Rand

	mu      sync.Mutex
	records []record // guarded by mu; numbered from 1
	cuts    int      // guarded by mu; connections still to be cut
}

func newCutter(seed uint64) *cutter {
	c := &cutter{random: rand.New(rand.NewPCG(seed, 3))}
	ends := map[string]int64{}
	for range 40 + c.random.IntN(40) {
		r := record{stream: []string{"stdout", "stderr"}[c.random.IntN(2)]}
		r.offset = ends[r.stream]
		for range 1 + c.random.IntN(30) {
			r.data = append(r.data, []string{"a", "\n", "é", "€", "😀", "\xff", "\x00", "\""}[c.random.IntN(8)]...)
		}
		ends[r.stream] += int64(len(r.data))
		c.records = append(c.records, r)
	}
	c.cuts = 5 + c.random.IntN(20)
	return c
}

// answer is everything from the answer to the exit, and where it is cut; -1 for not.
func (c *cutter) answer(line []byte) (text []byte, cut int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var r struct {
		ID     string
		Params api.ExecStreamParams
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return []byte(err.Error()), -1
	}
	if c.random.IntN(3) == 0 && r.Params.ExecID != "" { // the log drops its middle
		from := c.random.IntN(len(c.records))
		for i := from; i < min(from+3, len(c.records)); i++ {
			c.records[i].gone = true
		}
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `{"id":%q,"ok":true,"data":{"stream_id":"x-1","exec_id":"x-1"}}`+"\n", r.ID)
	push := func(ev api.StreamEvent) {
		b, _ := json.Marshal(ev)
		out.Write(append(b, '\n'))
	}
	for i := int(r.Params.AfterSeq); i < len(c.records); i++ {
		rec := c.records[i]
		data, end := rec.data, rec.offset+int64(len(rec.data))
		ev := api.StreamEvent{StreamID: "x-1", Seq: int64(i + 1)}
		if rec.gone {
			// The reader gets the gap of the log, which may cover bytes that it already has.
			for j := i; j >= 0 && c.records[j].gone; j-- {
				if c.records[j].stream == rec.stream {
					rec.offset = c.records[j].offset
				}
			}
			ev.Type, ev.Stream, ev.From, ev.To = api.EventGap, rec.stream, &rec.offset, &end
			push(ev)
			continue
		}
		for i+1 < len(c.records) && c.records[i+1].stream == rec.stream && !c.records[i+1].gone && c.random.IntN(2) == 0 {
			i++
			data = append(data[:len(data):len(data)], c.records[i].data...)
			ev.Seq++
		}
		ev.Type, ev.Offset = rec.stream, &rec.offset
		ev.Data, ev.DataBase64 = api.Text(data)
		push(ev)
	}
	push(api.StreamEvent{StreamID: "x-1", Seq: int64(len(c.records) + 1), Type: api.EventExit, ExecOutcome: &api.ExecOutcome{ExitCode: 7}})
	if c.cuts--; c.cuts < 0 || int(r.Params.AfterSeq) > len(c.records)-8 { // where nothing is left to be cut
		return out.Bytes(), -1
	}
	return out.Bytes(), c.random.IntN(out.Len())
}

func (c *cutter) serve(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer nc.Close()
			line, err := bufio.NewReader(nc).ReadBytes('\n')
			if err != nil {
				return // the connection for calls
			}
			text, cut := c.answer(line)
			if cut >= 0 {
				text = text[:cut]
			}
			_, _ = nc.Write(text)
			if cut < 0 {
				_, _ = io.Copy(io.Discard, nc)
			}
		}()
	}
}

// TestAnyCutYieldsTheSameBytes is the property behind resuming: wherever the connection is cut, each
// byte arrives once, in order, or is part of a gap.
func TestAnyCutYieldsTheSameBytes(t *testing.T) {
	var all sync.WaitGroup
	defer all.Wait()
	for seed := range uint64(60) {
		all.Go(func() {
			ln, path := listen(t)
			daemon := newCutter(seed)
			go daemon.serve(ln)
			c, err := client.Dial(timeout(t), path)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			// The first attachment starts nothing, so that it may be cut, too.
			s, err := c.ExecStream(timeout(t), api.ExecStreamParams{ExecID: "x-1"})
			if err == nil {
				err = daemon.check(s)
			}
			if err != nil {
				t.Errorf("seed %d: %s", seed, err)
			}
		})
	}
}

// check reads the stream to its end and compares it with the log.
func (c *cutter) check(s api.Stream) error {
	whole := map[string][]byte{}
	for _, r := range c.records { // data does not change
		whole[r.stream] = append(whole[r.stream], r.data...)
	}
	at, seq := map[string]int64{}, int64(0)
	for {
		ev, err := s.Recv()
		if err != nil {
			return err
		}
		if ev.Seq < seq {
			return fmt.Errorf("seq %d after %d", ev.Seq, seq)
		}
		seq = ev.Seq
		switch ev.Type {
		case api.EventGap:
			if *ev.From != at[ev.Stream] || *ev.To <= *ev.From {
				return fmt.Errorf("%s: gap [%d, %d), but the reader is at %d", ev.Stream, *ev.From, *ev.To, at[ev.Stream])
			}
			at[ev.Stream] = *ev.To
		case api.EventExit:
			for name, data := range whole {
				if at[name] != int64(len(data)) {
					return fmt.Errorf("%s: %d of %d bytes", name, at[name], len(data))
				}
			}
			if _, err := s.Recv(); err != io.EOF {
				return fmt.Errorf("after the exit: %v", err)
			}
			return nil
		default:
			data := api.Data(ev.Data, ev.DataBase64)
			if *ev.Offset != at[ev.Type] {
				return fmt.Errorf("%s: data at %d, but the reader is at %d", ev.Type, *ev.Offset, at[ev.Type])
			}
			if !strings.HasPrefix(string(whole[ev.Type][*ev.Offset:]), string(data)) {
				return fmt.Errorf("%s: other bytes at %d", ev.Type, *ev.Offset)
			}
			at[ev.Type] += int64(len(data))
		}
	}
}
