package rpc

import (
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/trl-dev/trl/api"
)

// Status returns the gRPC error for a call that ends with e. It has gRPC's code for the code of e.
// The text and an ErrorInfo have the code of e itself; the ErrorInfo also has the details that are
// strings. The errors of single requests travel in frames instead.
func Status(e *api.Error) error {
	code := codes.Unknown
	for _, c := range api.Codes {
		if c.Code == e.Code {
			_ = code.UnmarshalJSON([]byte(`"` + c.GRPC + `"`))
		}
	}
	s := status.New(code, string(e.Code)+": "+e.Message)
	info := &errdetails.ErrorInfo{Reason: string(e.Code), Domain: errorDomain, Metadata: map[string]string{}}
	for name, value := range e.Details {
		if text, ok := value.(string); ok {
			info.Metadata[name] = text
		}
	}
	if with, err := s.WithDetails(info); err == nil {
		s = with
	}
	return s.Err()
}

// errorDomain marks an ErrorInfo whose codes are those of TRL.
const errorDomain = "trl"

// tooLarge is the beginning of the error text of package grpc for a frame that is too large.
const tooLarge = "grpc: received message larger than max"

// FromStatus is the inverse of Status. It returns false for an error that is not from a daemon.
func FromStatus(err error) (*api.Error, bool) {
	s, ok := status.FromError(err)
	if !ok || err == nil {
		return nil, false
	}
	if s.Code() == codes.ResourceExhausted && strings.HasPrefix(s.Message(), tooLarge) {
		return api.Errorf(api.CodeRequestTooLarge, "request: larger than max_request_bytes (%s)", s.Message()), true
	}
	code, message, _ := strings.Cut(s.Message(), ": ")
	if !slices.ContainsFunc(api.Codes, func(c api.CodeInfo) bool { return string(c.Code) == code }) {
		return nil, false
	}
	e := &api.Error{Code: api.Code(code), Message: message}
	for _, detail := range s.Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != errorDomain || len(info.GetMetadata()) == 0 {
			continue
		}
		e.Details = map[string]any{}
		for name, value := range info.GetMetadata() {
			e.Details[name] = value
		}
	}
	return e, true
}
