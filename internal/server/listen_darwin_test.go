package server_test

import (
	"net"
	"testing"
)

func dialAs(t *testing.T, _ string, _ int) (net.Conn, error) {
	t.Skip("a thread cannot be another user here")
	return nil, nil
}
