// Package link carries calls between the daemon and a runner over one byte
// stream: a unix socket, or later a docker exec, an ssh channel or a TLS
// connection. A frame has a JSON header and a raw body, so that output is never
// encoded twice. Every call names its data by offset or sequence number, and the
// connection has no state: after it breaks, a new connection continues.
package link
