package api

import (
	"context"
	"errors"
	"fmt"
)

// Code is a stable name of a kind of error.
type Code string

// The codes. Their meaning never changes; new ones may appear.
const (
	CodeInvalidParams        Code = "INVALID_PARAMS"
	CodeMethodNotFound       Code = "METHOD_NOT_FOUND"
	CodeSessionNotFound      Code = "SESSION_NOT_FOUND"
	CodeSessionBusy          Code = "SESSION_BUSY"
	CodeSessionTerminated    Code = "SESSION_TERMINATED"
	CodeExecNotFound         Code = "EXEC_NOT_FOUND"
	CodeMaxSessionsReached   Code = "MAX_SESSIONS_REACHED"
	CodeShellNotFound        Code = "SHELL_NOT_FOUND"
	CodeShellFailed          Code = "SHELL_FAILED"
	CodeSessionLimitExceeded Code = "SESSION_LIMIT_EXCEEDED"
	CodeResourcePressure     Code = "RESOURCE_PRESSURE"
	CodeRuntimeUnavailable   Code = "RUNTIME_UNAVAILABLE"
	CodeRequestTooLarge      Code = "REQUEST_TOO_LARGE"
	CodeAuthFailed           Code = "AUTH_FAILED"
	CodeForbidden            Code = "FORBIDDEN"
	CodeConflict             Code = "CONFLICT"
	CodeDialogueNotFound     Code = "DIALOGUE_NOT_FOUND"
	CodeDialogueEnded        Code = "DIALOGUE_ENDED"
	CodeAgentFailed          Code = "AGENT_FAILED"
	CodeInternal             Code = "INTERNAL_ERROR"
)

// CodeInfo is what a code means outside the JSON protocol.
type CodeInfo struct {
	Code    Code
	HTTP    int    // HTTP status
	GRPC    string // canonical gRPC status name
	Exit    int    // exit status of the CLI
	Meaning string
}

// Codes is the one table that maps codes to other worlds. Every failure of TRL
// itself leaves the CLI with 125, except those that POSIX shells name 126 and 127.
var Codes = []CodeInfo{
	{CodeInvalidParams, 400, "INVALID_ARGUMENT", 125, "a parameter is missing, has the wrong type or a value that cannot be"},
	{CodeMethodNotFound, 404, "UNIMPLEMENTED", 125, "there is no such method"},
	{CodeSessionNotFound, 404, "NOT_FOUND", 125, "there is no such session"},
	{CodeSessionBusy, 409, "FAILED_PRECONDITION", 125, "the session runs another command"},
	{CodeSessionTerminated, 410, "FAILED_PRECONDITION", 125, "the session has ended"},
	{CodeExecNotFound, 404, "NOT_FOUND", 125, "there is no such exec, or it is too old"},
	{CodeMaxSessionsReached, 429, "RESOURCE_EXHAUSTED", 125, "the limit max_sessions is reached"},
	{CodeShellNotFound, 422, "FAILED_PRECONDITION", 127, "the shell does not exist there"},
	{CodeShellFailed, 422, "FAILED_PRECONDITION", 126, "the shell is not one TRL can drive, or it did not start"},
	{CodeSessionLimitExceeded, 429, "RESOURCE_EXHAUSTED", 125, "the session has run as many commands as it may"},
	{CodeResourcePressure, 503, "RESOURCE_EXHAUSTED", 125, "too much at once; try again later"},
	{CodeRuntimeUnavailable, 503, "UNAVAILABLE", 125, "the place where the session lives cannot be reached"},
	{CodeRequestTooLarge, 413, "RESOURCE_EXHAUSTED", 125, "the request is larger than max_request_bytes"},
	{CodeAuthFailed, 401, "UNAUTHENTICATED", 125, "the caller did not prove who it is"},
	{CodeForbidden, 403, "PERMISSION_DENIED", 125, "the caller may not do this"},
	{CodeConflict, 409, "ALREADY_EXISTS", 125, "the name is taken, or the thing is in the wrong state"},
	{CodeDialogueNotFound, 404, "NOT_FOUND", 125, "there is no such dialogue, or it is no longer kept"},
	{CodeDialogueEnded, 410, "FAILED_PRECONDITION", 125, "the process of the agent has ended; dialogue.resume starts it again"},
	{CodeAgentFailed, 422, "FAILED_PRECONDITION", 126, "the agent's program did not start, or did not answer as it should; details has its stderr"},
	{CodeInternal, 500, "INTERNAL", 125, "a fault in TRL"},
}

// Error is what every method answers when it cannot do what it was asked.
type Error struct {
	Code    Code           `json:"code"`              // stable; programs go by it
	Message string         `json:"message"`           // for people: the thing, its id, the cause
	Details map[string]any `json:"details,omitempty"` // more for programs, such as field: the parameter that is wrong
}

// Errorf makes an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string { return e.Message }

// Is reports whether target is an Error of the same code, so that
// errors.Is(err, api.ErrSessionBusy) works on both sides of the wire.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Sentinels for errors.Is.
var (
	ErrInvalidParams      = &Error{Code: CodeInvalidParams}
	ErrSessionNotFound    = &Error{Code: CodeSessionNotFound}
	ErrSessionBusy        = &Error{Code: CodeSessionBusy}
	ErrSessionTerminated  = &Error{Code: CodeSessionTerminated}
	ErrExecNotFound       = &Error{Code: CodeExecNotFound}
	ErrMaxSessionsReached = &Error{Code: CodeMaxSessionsReached}
	ErrDialogueNotFound   = &Error{Code: CodeDialogueNotFound}
	ErrDialogueEnded      = &Error{Code: CodeDialogueEnded}
	ErrAgentFailed        = &Error{Code: CodeAgentFailed}
	ErrConflict           = &Error{Code: CodeConflict}
	ErrRuntimeUnavailable = &Error{Code: CodeRuntimeUnavailable}
	ErrResourcePressure   = &Error{Code: CodeResourcePressure}
)

// What a daemon answers while it does not serve yet, or not any more. Another one may
// be there soon: a client tells these by their text, and may try again what it only reads.
var (
	ErrDaemonStarting = Errorf(CodeRuntimeUnavailable, "the daemon is starting")
	ErrDaemonEnding   = Errorf(CodeRuntimeUnavailable, "the daemon is shutting down")
	// ErrDaemonStopped is ErrDaemonEnding of a daemon that takes its sessions along: whatever
	// ran in them is not found again.
	ErrDaemonStopped = &Error{Code: CodeRuntimeUnavailable, Message: ErrDaemonEnding.Message, Details: map[string]any{"sessions": "ended"}}
)

// SessionsEnded reports whether a daemon that went away has ended its sessions.
func SessionsEnded(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == CodeRuntimeUnavailable && e.Details["sessions"] == "ended"
}

// AsError turns any error into an *Error; one without a code becomes INTERNAL_ERROR.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		if e.Error() == err.Error() {
			return e
		}
		return &Error{Code: e.Code, Message: err.Error(), Details: e.Details}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Errorf(CodeResourcePressure, "the call was given up: %s", err)
	}
	return Errorf(CodeInternal, "%s", err)
}
