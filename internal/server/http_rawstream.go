package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/trl-dev/trl/api"
)

// Headers of the bare output of a command that the request itself started or follows.
const (
	headerExec     = "X-Trl-Exec-Id"   // the command
	headerExitCode = "X-Trl-Exit-Code" // in the trailer, when the command has ended
)

// pushRaw sends one stream of the output of a command as bare bytes: stdout, unless the
// parameters name stderr. What bytes cannot say is in the trailers. first is a push that
// was received already, or nil.
func (x *exchange) pushRaw(ctx context.Context, s api.Stream, params json.RawMessage, first *api.StreamEvent) {
	var given struct {
		Stream     string `json:"stream"`
		FromOffset int64  `json:"from_offset"`
	}
	_ = json.Unmarshal(params, &given) // the method has checked them
	if given.Stream == "" {
		given.Stream = api.EventStdout
	}
	header := x.w.Header()
	header.Set("Content-Type", rawType)
	header.Set("X-Accel-Buffering", "no")
	header.Set(headerExec, s.Start().ExecID)
	for _, name := range []string{headerNextOffset, headerComplete, headerGap, headerExitCode} {
		header.Add("Trailer", name)
	}
	x.w.WriteHeader(http.StatusOK)
	if x.w.FlushError() != nil {
		return
	}
	for offset := given.FromOffset; ; {
		ev, err := x.next(s, &first)
		switch {
		case err != nil:
			if err != io.EOF && ctx.Err() == nil {
				x.log.Debug("raw stream interrupted", "exec_id", s.Start().ExecID, "error", err)
			}
			panic(http.ErrAbortHandler) // a proper end would look complete
		case ev.Type == api.EventExit:
			header.Set(headerNextOffset, strconv.FormatInt(offset, 10))
			header.Set(headerComplete, "true")
			header.Set(headerExitCode, strconv.Itoa(ev.ExitCode))
			return
		case ev.Type == api.EventGap && ev.Stream == given.Stream:
			header.Set(headerNextOffset, strconv.FormatInt(*ev.To, 10))
			header.Set(headerComplete, "false")
			header.Set(headerGap, strconv.FormatInt(*ev.From, 10)+"-"+strconv.FormatInt(*ev.To, 10))
			return
		case ev.Type != given.Stream:
			continue
		}
		data := api.Data(ev.Data, ev.DataBase64)
		if !x.writeRaw(data) || x.w.FlushError() != nil {
			return
		}
		offset = *ev.Offset + int64(len(data))
	}
}
