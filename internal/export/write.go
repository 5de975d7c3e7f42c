package export

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"io"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// An export holds the readable remains of a session: the saved log of each command, one
// after another, the last screen of a terminal, then a directory in JSON, then the length of
// the directory in eight bytes. The directory comes last because the positions of the logs
// are known only then; a reader starts at the end.
type directory struct {
	Version int                `json:"version"`
	Result  link.DestroyResult `json:"result"`
	Logs    []savedLog         `json:"logs"`
	Screen  *savedScreen       `json:"screen,omitempty"`
}

const version = 1

// savedLog says where the log of a command is in an export.
type savedLog struct {
	ExecID string     `json:"exec_id"`
	At     int64      `json:"at"`
	Len    int64      `json:"len"`
	Mark   int64      `json:"mark"`            // the sequence number of the exit
	Error  *api.Error `json:"error,omitempty"` // why the command could not start
}

// savedScreen says where the snapshot of the last screen is in an export.
type savedScreen struct {
	link.SnapshotResult
	At  int64 `json:"at"`
	Len int64 `json:"len"`
}

// Screen is the last screen of a terminal, as a snapshot.
type Screen struct {
	link.SnapshotResult
	Data []byte // written to a fresh terminal, it shows the screen
}

// Write writes the export of a session that has ended. The logs of its commands are closed.
// screen is nil if the session was not a terminal.
func Write(w io.Writer, res link.DestroyResult, execs []*Exec, screen *Screen) error {
	count := &counter{w: bufio.NewWriterSize(w, 256<<10)}
	d := directory{Version: version, Result: res}
	for _, e := range execs {
		status := e.Status()
		log := savedLog{ExecID: e.ID, At: count.n, Mark: status.Mark}
		if status.Err != nil {
			log.Error = api.AsError(status.Err)
		}
		if err := e.Log.Save(count); err != nil {
			return err
		}
		log.Len = count.n - log.At
		d.Logs = append(d.Logs, log)
	}
	if screen != nil {
		d.Screen = &savedScreen{SnapshotResult: screen.SnapshotResult, At: count.n, Len: int64(len(screen.Data))}
		if _, err := count.Write(screen.Data); err != nil {
			return err
		}
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if _, err := count.Write(binary.BigEndian.AppendUint64(text, uint64(len(text)))); err != nil {
		return err
	}
	return count.w.Flush()
}

// counter counts the bytes that are written.
type counter struct {
	w *bufio.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
