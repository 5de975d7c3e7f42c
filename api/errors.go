package api

import (
	"context"
	"errors"
	"fmt"
)

// Code is the stable name of a kind of error.
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
	CodeLimitUnavailable     Code = "LIMIT_UNAVAILABLE"
	CodeIsolationUnavailable Code = "ISOLATION_UNAVAILABLE"
	CodeAuthFailed           Code = "AUTH_FAILED"
	CodeForbidden            Code = "FORBIDDEN"
	CodeConflict             Code = "CONFLICT"
	CodeDialogueNotFound     Code = "DIALOGUE_NOT_FOUND"
	CodeDialogueEnded        Code = "DIALOGUE_ENDED"
	CodeAgentFailed          Code = "AGENT_FAILED"
	CodeCancelled            Code = "CANCELLED"
	CodeInternal             Code = "INTERNAL_ERROR"
)

// Reasons tell apart errors with the same code. Error.Reason returns them; on the wire they are
// in details.reason.
const (
	ReasonStarting    = "starting"     // RUNTIME_UNAVAILABLE: the daemon does not serve yet
	ReasonStopping    = "stopping"     // RUNTIME_UNAVAILABLE: the daemon no longer serves
	ReasonStdinClosed = "stdin_closed" // CONFLICT: the command was not started with open stdin
	ReasonProgram     = "program"      // SHELL_NOT_FOUND, SHELL_FAILED: the error is about a program, not a shell
)

// CodeInfo gives the meaning of a code, and its equivalents outside the JSON protocol.
type CodeInfo struct {
	Code    Code
	HTTP    int    // HTTP status
	GRPC    string // canonical gRPC status name
	Exit    int    // exit status of the CLI
	Meaning string
}

// Codes is the one table that maps codes to HTTP, gRPC and exit statuses. The CLI exits with
// 125 for every failure of TRL itself, except for those that POSIX assigns to 126 and 127.
var Codes = []CodeInfo{
	{CodeInvalidParams, 400, "INVALID_ARGUMENT", 125, "a parameter is missing, has the wrong type or an invalid value"},
	{CodeMethodNotFound, 404, "UNIMPLEMENTED", 125, "there is no such method"},
	{CodeSessionNotFound, 404, "NOT_FOUND", 125, "there is no such session"},
	{CodeSessionBusy, 409, "FAILED_PRECONDITION", 125, "the session runs another command"},
	{CodeSessionTerminated, 410, "FAILED_PRECONDITION", 125, "the session has ended"},
	{CodeExecNotFound, 404, "NOT_FOUND", 125, "there is no such command, or TRL no longer keeps it"},
	{CodeMaxSessionsReached, 429, "RESOURCE_EXHAUSTED", 125, "the limit max_sessions is reached"},
	{CodeShellNotFound, 422, "FAILED_PRECONDITION", 127, "the shell does not exist in the runtime"},
	{CodeShellFailed, 422, "FAILED_PRECONDITION", 126, "TRL cannot drive this shell, or the shell did not start"},
	{CodeSessionLimitExceeded, 429, "RESOURCE_EXHAUSTED", 125, "the session has run as many commands as it may"},
	{CodeResourcePressure, 503, "RESOURCE_EXHAUSTED", 125, "the machine or TRL is overloaded; try again later"},
	{CodeRuntimeUnavailable, 503, "UNAVAILABLE", 125, "the daemon, or the runtime of the session, cannot be reached"},
	{CodeRequestTooLarge, 413, "RESOURCE_EXHAUSTED", 125, "the request is larger than max_request_bytes"},
	{CodeLimitUnavailable, 422, "FAILED_PRECONDITION", 125, "a required limit cannot be enforced in this place; details.limits names each and says why"},
	{CodeIsolationUnavailable, 422, "FAILED_PRECONDITION", 125, "required isolation cannot be enforced in this place; details.aspects names each missing aspect and says why"},
	{CodeAuthFailed, 401, "UNAUTHENTICATED", 125, "the caller is not authenticated"},
	{CodeForbidden, 403, "PERMISSION_DENIED", 125, "the caller may not do this"},
	{CodeConflict, 409, "ALREADY_EXISTS", 125, "the name is taken, or the thing is in the wrong state"},
	{CodeDialogueNotFound, 404, "NOT_FOUND", 125, "there is no such dialogue, or TRL no longer keeps it"},
	{CodeDialogueEnded, 410, "FAILED_PRECONDITION", 125, "the agent's process has ended; dialogue.resume starts it again"},
	{CodeAgentFailed, 422, "FAILED_PRECONDITION", 126, "the agent's program did not start or did not answer correctly; details has its stderr"},
	{CodeCancelled, 499, "CANCELLED", 125, "the caller stopped waiting for the answer"},
	{CodeInternal, 500, "INTERNAL", 125, "a fault in TRL"},
}

// Error is the answer of a method that failed.
type Error struct {
	Code    Code           `json:"code"`              // stable; programs branch on it
	Message string         `json:"message"`           // for people: the thing, its id, the cause
	Details map[string]any `json:"details,omitempty"` // more for programs, such as field: the name of the invalid parameter
}

// Errorf returns an Error with a formatted message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// InvalidParam returns the error of a parameter with a wrong value. Its details name the field.
func InvalidParam(field, format string, args ...any) *Error {
	e := Errorf(CodeInvalidParams, "params.%s: %s", field, fmt.Sprintf(format, args...))
	e.Details = map[string]any{"field": field}
	return e
}

func (e *Error) Error() string { return e.Message }

// Because adds the reason to the details and returns e.
func (e *Error) Because(reason string) *Error {
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details["reason"] = reason
	return e
}

// Reason tells e apart from other errors with the same code; "" when the code says it all.
func (e *Error) Reason() string {
	reason, _ := e.Details["reason"].(string)
	return reason
}

// Is reports whether target is an Error with the same code and, if target has a reason, the
// same reason, so that errors.Is(err, api.ErrSessionBusy) works on both sides of the wire.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && (t.Reason() == "" || t.Reason() == e.Reason())
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
	ErrCancelled          = &Error{Code: CodeCancelled}
)

// Errors of a daemon that does not serve yet, or no longer serves. Another daemon may take
// over soon. After ErrDaemonStarting a client may repeat any call, because the daemon has not
// begun it; after ErrDaemonEnding only calls that are harmless when carried out twice, and
// session.create and dialogue.create, which have then created nothing.
var (
	ErrDaemonStarting = Errorf(CodeRuntimeUnavailable, "the daemon is starting").Because(ReasonStarting)
	ErrDaemonEnding   = Errorf(CodeRuntimeUnavailable, "the daemon is shutting down").Because(ReasonStopping)
	// ErrDaemonStopped is the ErrDaemonEnding of a daemon that ends its sessions too: no
	// later daemon finds them.
	ErrDaemonStopped = &Error{Code: CodeRuntimeUnavailable, Message: ErrDaemonEnding.Message, Details: map[string]any{"reason": ReasonStopping, "sessions": "ended"}}
)

// SessionsEnded reports whether err comes from a daemon that ended its sessions when it
// stopped.
func SessionsEnded(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == CodeRuntimeUnavailable && e.Details["sessions"] == "ended"
}

// AsError turns any error into an *Error. An error without a code becomes INTERNAL_ERROR.
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
		return Errorf(CodeCancelled, "the caller stopped waiting: %s", err)
	}
	return Errorf(CodeInternal, "%s", err)
}
