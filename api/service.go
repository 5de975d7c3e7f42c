package api

import "context"

// Version is the version of the wire contract that system.info reports.
const Version = 1

// Service is every call that a client can make. A method's context limits only how long the
// caller waits. ExecParams.Detach decides what happens to a command whose caller disconnects.
// Implementations are safe for concurrent use.
type Service interface {
	SystemPing(ctx context.Context, p SystemPingParams) (SystemPingResult, error)
	SystemStats(ctx context.Context, p SystemStatsParams) (SystemStatsResult, error)
	SystemInfo(ctx context.Context, p SystemInfoParams) (SystemInfoResult, error)
	SystemSettings(ctx context.Context, p SystemSettingsParams) (SystemSettingsResult, error)
	SystemDoctor(ctx context.Context, p SystemDoctorParams) (SystemDoctorResult, error)
	SystemLog(ctx context.Context, p SystemLogParams) (Stream, error)
	SystemHello(ctx context.Context, p SystemHelloParams) (SystemHelloResult, error)
	SystemUpgrade(ctx context.Context, p SystemUpgradeParams) (SystemUpgradeResult, error)
	SystemHTTP(ctx context.Context, p SystemHTTPParams) (SystemHTTPResult, error)

	WebOpen(ctx context.Context, p WebOpenParams) (WebOpenResult, error)
	WebShare(ctx context.Context, p WebShareParams) (WebShareResult, error)
	WebList(ctx context.Context, p WebListParams) (WebListResult, error)
	WebRevoke(ctx context.Context, p WebRevokeParams) (WebRevokeResult, error)

	RuntimeList(ctx context.Context, p RuntimeListParams) (RuntimeListResult, error)
	RuntimeCheck(ctx context.Context, p RuntimeCheckParams) (RuntimeCheckResult, error)
	RuntimePrune(ctx context.Context, p RuntimePruneParams) (RuntimePruneResult, error)

	GuestStart(ctx context.Context, p GuestStartParams) (GuestInfo, error)
	GuestConnect(ctx context.Context, p GuestConnectParams) (Stream, error)
	GuestSend(ctx context.Context, p GuestSendParams) (GuestSendResult, error)
	GuestEnd(ctx context.Context, p GuestEndParams) (GuestEndResult, error)
	GuestList(ctx context.Context, p GuestListParams) (GuestListResult, error)

	SessionCreate(ctx context.Context, p SessionCreateParams) (SessionInfo, error)
	SessionList(ctx context.Context, p SessionListParams) (SessionListResult, error)
	SessionInfo(ctx context.Context, p SessionInfoParams) (SessionDetails, error)
	SessionSet(ctx context.Context, p SessionSetParams) (SessionInfo, error)
	SessionOwn(ctx context.Context, p SessionOwnParams) (SessionInfo, error)
	SessionDestroy(ctx context.Context, p SessionDestroyParams) (SessionDestroyResult, error)

	SessionInput(ctx context.Context, p SessionInputParams) (SessionInputResult, error)
	SessionResize(ctx context.Context, p SessionResizeParams) (SessionResizeResult, error)
	SessionScreen(ctx context.Context, p SessionScreenParams) (SessionScreenResult, error)
	SessionWait(ctx context.Context, p SessionWaitParams) (SessionWaitResult, error)
	SessionAttach(ctx context.Context, p SessionAttachParams) (Stream, error)
	SessionRecording(ctx context.Context, p SessionRecordingParams) (SessionRecordingResult, error)

	RecordingList(ctx context.Context, p RecordingListParams) (RecordingListResult, error)
	RecordingRead(ctx context.Context, p RecordingReadParams) (RecordingReadResult, error)
	RecordingDelete(ctx context.Context, p RecordingDeleteParams) (RecordingDeleteResult, error)

	ExecRun(ctx context.Context, p ExecParams) (ExecResult, error)
	ExecStart(ctx context.Context, p ExecParams) (ExecInfo, error)
	ExecStream(ctx context.Context, p ExecStreamParams) (Stream, error)
	ExecOutput(ctx context.Context, p ExecOutputParams) (ExecOutputResult, error)
	ExecInput(ctx context.Context, p ExecInputParams) (ExecInputResult, error)
	ExecWait(ctx context.Context, p ExecWaitParams) (ExecWaitResult, error)
	ExecSignal(ctx context.Context, p ExecSignalParams) (ExecSignalResult, error)
	ExecCancel(ctx context.Context, p ExecCancelParams) (ExecInfo, error)
	ExecInfo(ctx context.Context, p ExecInfoParams) (ExecInfo, error)
	ExecList(ctx context.Context, p ExecListParams) (ExecListResult, error)

	DialogueCreate(ctx context.Context, p DialogueCreateParams) (DialogueInfo, error)
	DialogueList(ctx context.Context, p DialogueListParams) (DialogueListResult, error)
	DialogueInfo(ctx context.Context, p DialogueInfoParams) (DialogueInfo, error)
	DialogueRequests(ctx context.Context, p DialogueRequestsParams) (DialogueRequestsResult, error)
	DialogueSend(ctx context.Context, p DialogueSendParams) (DialogueSendResult, error)
	DialogueUnsend(ctx context.Context, p DialogueUnsendParams) (DialogueInfo, error)
	DialogueInterrupt(ctx context.Context, p DialogueInterruptParams) (DialogueInfo, error)
	DialogueRespond(ctx context.Context, p DialogueRespondParams) (DialogueInfo, error)
	DialogueSet(ctx context.Context, p DialogueSetParams) (DialogueInfo, error)
	DialogueEvents(ctx context.Context, p DialogueEventsParams) (Stream, error)
	DialogueTranscript(ctx context.Context, p DialogueTranscriptParams) (DialogueTranscriptResult, error)
	DialogueItem(ctx context.Context, p DialogueItemParams) (DialogueItemResult, error)
	DialogueSearch(ctx context.Context, p DialogueSearchParams) (DialogueSearchResult, error)
	DialogueLines(ctx context.Context, p DialogueLinesParams) (DialogueLinesResult, error)
	DialogueRaw(ctx context.Context, p DialogueRawParams) (DialogueRawResult, error)
	DialogueTerminate(ctx context.Context, p DialogueTerminateParams) (DialogueInfo, error)
	DialogueResume(ctx context.Context, p DialogueResumeParams) (DialogueInfo, error)
	DialogueRetry(ctx context.Context, p DialogueRetryParams) (DialogueInfo, error)

	EventSubscribe(ctx context.Context, p EventSubscribeParams) (Stream, error)
	StreamClose(ctx context.Context, p StreamCloseParams) (StreamCloseResult, error)
	UsageSubscribe(ctx context.Context, p UsageSubscribeParams) (Stream, error)

	AuditList(ctx context.Context, p AuditListParams) (AuditListResult, error)
	AuditSubscribe(ctx context.Context, p AuditSubscribeParams) (Stream, error)
	AuditVerify(ctx context.Context, p AuditVerifyParams) (AuditVerifyResult, error)
}

// Stream is the answer of a streaming method: the immediate answer and the pushes
// that follow. Only one goroutine at a time may use a Stream.
type Stream interface {
	// Start is the immediate answer.
	Start() StreamStart
	// Recv returns the next push. After the last one (type "exit") it returns io.EOF.
	// It returns an error when the context of the call that opened the stream ends.
	Recv() (StreamEvent, error)
	// Close closes the stream. The command's Detach parameter decides whether the command runs on.
	Close() error
}

// ByteStream is a Stream that also returns output as bytes, which saves a conversion to
// text and back.
type ByteStream interface {
	Stream
	// RecvBytes is Recv, but returns the output of a push as bytes instead of in Data and
	// DataBase64. The caller must not change the bytes; they are valid until the next call.
	RecvBytes() (StreamEvent, []byte, error)
}

type connKey struct{}

// WithConn returns a context that carries the lifetime of the caller's connection: conn is
// done when the connection closes.
func WithConn(ctx, conn context.Context) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// Conn returns the lifetime of the caller's connection, or ctx itself for a
// caller that has no connection (a call from within the process).
func Conn(ctx context.Context) context.Context {
	if conn, ok := ctx.Value(connKey{}).(context.Context); ok {
		return conn
	}
	return ctx
}

type inputKey struct{}

// WithInput returns a context for the calls of a client that has one connection only. input ends
// when the client has ended its input: no client can write to the stdin of its commands any more.
func WithInput(ctx, input context.Context) context.Context {
	return context.WithValue(ctx, inputKey{}, input)
}

// Input returns the context that ends with the input of such a client; nil for any other caller.
func Input(ctx context.Context) context.Context {
	input, _ := ctx.Value(inputKey{}).(context.Context)
	return input
}

type namedKey struct{}

// WithNamed returns a context whose call invokes named as soon as its new session has its name, so that
// later requests can refer to the session.
func WithNamed(ctx context.Context, named func()) context.Context {
	return context.WithValue(ctx, namedKey{}, named)
}

// Named calls the function of WithNamed, if ctx has one.
func Named(ctx context.Context) {
	if named, ok := ctx.Value(namedKey{}).(func()); ok {
		named()
	}
}

type helloKey struct{}

// WithHello returns a context whose call can change the label of the caller's connection. hello does
// so and returns the caller as later calls see it.
func WithHello(ctx context.Context, hello func(label string) Caller) context.Context {
	return context.WithValue(ctx, helloKey{}, hello)
}

// Hello calls the function of WithHello. It returns an error if the caller has no connection that
// stays after the call.
func Hello(ctx context.Context, label string) (Caller, error) {
	hello, ok := ctx.Value(helloKey{}).(func(string) Caller)
	if !ok {
		return Caller{}, Errorf(CodeConflict, "label: only a connection can have one; use the socket, stdio, a WebSocket or gRPC")
	}
	return hello(label), nil
}

type traceKey struct{}

// WithTraceparent returns a context whose calls are part of a trace. The traceparent is the caller's
// position in it, as W3C Trace Context defines it. A Client sends it to the daemon, which ignores a
// malformed one. An empty traceparent changes nothing.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, traceparent)
}

// Traceparent returns the text of WithTraceparent, "" if ctx has none.
func Traceparent(ctx context.Context) string {
	text, _ := ctx.Value(traceKey{}).(string)
	return text
}

type streamsKey struct{}

// WithStreams returns a context whose call can close streams of the caller's connection. close ends
// the stream with that id, waits until no push of it follows, and reports whether there was such a stream.
func WithStreams(ctx context.Context, close func(ctx context.Context, streamID string) bool) context.Context {
	return context.WithValue(ctx, streamsKey{}, close)
}

// CloseStream calls the function of WithStreams. It returns an error if the caller's connection cannot
// have several streams.
func CloseStream(ctx context.Context, streamID string) (closed bool, err error) {
	close, ok := ctx.Value(streamsKey{}).(func(context.Context, string) bool)
	if !ok {
		return false, Errorf(CodeConflict, "stream %.100q: only a connection that has streams beside its calls can close one; close the stream itself", streamID)
	}
	return close(ctx, streamID), nil
}
