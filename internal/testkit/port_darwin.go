package testkit

import "testing"

// reservePort returns the address of any port: here two sockets cannot share one in this way.
func reservePort(testing.TB) (address string) { return "127.0.0.1:0" }
