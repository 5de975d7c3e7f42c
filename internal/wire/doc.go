// Package wire implements both ends of the line protocol: one JSON object per line. It encodes
// and decodes requests, answers and pushes. Its Reader limits the memory that a peer can use,
// and its Writer never makes a sender wait for a slow peer.
//
// A push is a line that the daemon sends without a request of its own: an event of a stream.
// Raw bytes are output or input that follow a line, or travel beside a message, instead of being
// encoded in its JSON.
//
// The package does not import net, which takes long to initialise: internal/cli/early must begin
// before net does.
package wire
