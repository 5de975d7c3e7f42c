package sessiontest

import (
	"bytes"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/export"
	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/output"
)

// export is what a real runner would export.
func (r *Runner) export(result link.DestroyResult) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var execs []*export.Exec
	for _, x := range r.order {
		log := output.New(output.NewStore(output.StoreConfig{}), 1<<20)
		at := int64(0)
		for _, c := range x.chunks {
			st := output.Stdout
			if c.Stream == api.EventStderr {
				st = output.Stderr
			}
			if !c.Gap {
				log.Append(st, x.bytes[at:at+c.Len])
				log.Read(log.Last(), 1, nil) // a record of its own
				at += c.Len
			}
		}
		execs = append(execs, export.Ended(x.info.ExecID, log, export.Status{Mark: log.Mark()}))
		log.Close()
	}
	var b bytes.Buffer
	err := export.Write(&b, result, execs, r.lastScreen())
	return b.Bytes(), err
}

// goodbye makes the answer to destroy. The runner ends after it, or, if there is an
// export, when that is safe.
func (r *Runner) goodbye(p link.DestroyParams, result link.DestroyResult) (any, []byte, error) {
	if !p.Export {
		r.leaveIfFetched(func() {})
		return result, nil, nil
	}
	r.mu.Lock()
	r.exporting = true
	r.mu.Unlock()
	now := time.Now()
	if result.Info.State != api.SessionTerminated {
		result.Info.State, result.Info.TerminatedAt, result.Info.Cause = api.SessionTerminated, &now, p.Cause
	}
	body, err := r.export(result)
	result.Export = &link.ExportResult{}
	return result, body, err
}

// leaveIfFetched ends the runner if the daemon has everything after the change.
func (r *Runner) leaveIfFetched(change func()) {
	r.mu.Lock()
	change()
	over := !r.exporting && (r.screen.recording == nil || r.rt.RecordDir != "" || r.fetched)
	r.mu.Unlock()
	if over {
		r.leave()
	}
}

// leave ends the runner when its last answer has left.
func (r *Runner) leave() {
	r.tasks.Go(func() {
		time.Sleep(time.Millisecond)
		r.exit()
	})
}

// trim keeps as much output as it may.
func (r *Runner) trim(p link.TrimParams) (api.SessionInfo, error) {
	r.Say(func(info *api.SessionInfo) {
		r.trims = append(r.trims, p.Keep)
		info.OutputBytes = min(info.OutputBytes, p.Keep)
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.info, nil
}

// Trims returns the limits of the calls of trim, in their order.
func (r *Runner) Trims() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]int64(nil), r.trims...)
}

// lastScreen returns the last screen of a terminal, as a real runner exports it.
func (r *Runner) lastScreen() *export.Screen {
	if r.info.Kind != api.KindTerminal {
		return nil
	}
	x := r.order[0]
	return &export.Screen{
		SnapshotResult: link.SnapshotResult{Offset: x.info.StdoutBytes, Cols: r.screen.cols, Rows: r.screen.rows, Version: uint64(x.seq)},
		Data:           x.streamLocked(api.EventStdout),
	}
}
