package server

import (
	"crypto/tls"
	"encoding/json"
	"strconv"

	"github.com/trl-dev/trl/api"
)

const attachMethod = "session.attach"

// viewerBuffer limits the output in the system's send buffer. The default of several megabytes would
// make a slow viewer read old output for a long time before anything new.
const viewerBuffer = 128 << 10

// boundBuffer makes the system's send buffer for the client small.
func (x *exchange) boundBuffer() {
	nc := x.conn.nc
	if secure, ok := nc.(*tls.Conn); ok {
		nc = secure.NetConn()
	}
	if c, ok := nc.(interface{ SetWriteBuffer(int) error }); ok {
		_ = c.SetWriteBuffer(viewerBuffer) // without it the viewer is only further behind
	}
}

// attach answers GET /v1/session/{id}/attach, for clients that can only GET. It is
// session.attach for a viewer that only looks.
func (x *exchange) attach(id string) {
	x.get(attachMethod, map[string]queryKind{"from_offset": queryNumber, "scrollback": queryNumber, "label": queryText, "viewers": queryFlag, "modes": queryFlag},
		map[string]any{"session_id": id, "read_only": true})
}

// resumeViewer makes the parameters of a viewer that resumes with the id of its last event,
// which is the offset where the output continues.
func resumeViewer(fields map[string]json.RawMessage, offset int64) {
	delete(fields, "snapshot")
	fields["from_offset"] = strconv.AppendInt(nil, offset, 10)
}

// viewerEnd is the id of the last event of a viewer, after which there is nothing to resume.
const viewerEnd = "end"

// viewerID is the id of a push to a viewer: the offset with which it reconnects. The seq would not do,
// because each stream counts from 1.
func viewerID(ev *api.StreamEvent) string {
	switch {
	case ev.Type == api.EventExit:
		return viewerEnd
	case ev.Offset == nil: // the position does not change
		return ""
	case ev.Type == api.EventOutput:
		return strconv.FormatInt(*ev.Offset+int64(len(api.Data(ev.Data, ev.DataBase64))), 10)
	}
	return strconv.FormatInt(*ev.Offset, 10)
}
