package rpc

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/trl-dev/trl/api"
)

// Status is the error that a whole call ends with: gRPC's code for ours, which is in the
// text as well. Errors of single requests travel in frames.
func Status(e *api.Error) error {
	code := codes.Unknown
	for _, c := range api.Codes {
		if c.Code == e.Code {
			_ = code.UnmarshalJSON([]byte(`"` + c.GRPC + `"`))
		}
	}
	return status.Error(code, string(e.Code)+": "+e.Message)
}

// tooLarge is how package grpc itself begins when it does not take a frame.
const tooLarge = "grpc: received message larger than max"

// FromStatus is the inverse of Status. It reports false for what a daemon did not say.
func FromStatus(err error) (*api.Error, bool) {
	s, ok := status.FromError(err)
	if !ok || err == nil {
		return nil, false
	}
	if s.Code() == codes.ResourceExhausted && strings.HasPrefix(s.Message(), tooLarge) {
		return api.Errorf(api.CodeRequestTooLarge, "request: larger than max_request_bytes (%s)", s.Message()), true
	}
	code, message, _ := strings.Cut(s.Message(), ": ")
	for _, c := range api.Codes {
		if string(c.Code) == code {
			return &api.Error{Code: c.Code, Message: message}, true
		}
	}
	return nil, false
}
