package trace

import (
	"context"
	"maps"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/trl-dev/trl/api"
)

// Service is an api.Service that makes spans: session.create, exec, dialogue.create and dialogue.turn.
type Service struct {
	api.Service
	t *Tracer
}

// Wrap returns a Service that makes spans for its calls.
func (t *Tracer) Wrap(s api.Service) *Service { return &Service{s, t} }

// SessionCreate implements api.Service.
func (s *Service) SessionCreate(ctx context.Context, p api.SessionCreateParams) (api.SessionInfo, error) {
	_, span := s.t.begin(ctx, "session.create")
	info, err := s.Service.SessionCreate(ctx, p)
	if err != nil {
		fail(span, err)
		return info, err
	}
	span.SetAttributes(sessionID(info.SessionID), attribute.String("trl.session.kind", string(info.Kind)), attribute.String("trl.session.shell", info.ShellFamily))
	if info.Place != nil {
		span.SetAttributes(attribute.String("trl.session.runtime", string(info.Place.Kind)))
	}
	span.End()
	return info, nil
}

// ExecRun implements api.Service.
func (s *Service) ExecRun(ctx context.Context, p api.ExecParams) (api.ExecResult, error) {
	span := s.beginExec(ctx, &p)
	result, err := s.Service.ExecRun(ctx, p)
	if err != nil {
		fail(span, err)
		return result, err
	}
	span.SetAttributes(sessionID(result.SessionID), execID(result.ExecID))
	span.SetAttributes(outcome(&result.ExecOutcome)...)
	span.End()
	return result, nil
}

// ExecStart implements api.Service. The span ends with the command.
func (s *Service) ExecStart(ctx context.Context, p api.ExecParams) (api.ExecInfo, error) {
	span := s.beginExec(ctx, &p)
	info, err := s.Service.ExecStart(ctx, p)
	if err == nil && info.Outcome != nil { // a repeated call for a command that has ended
		span.SetAttributes(sessionID(info.SessionID), execID(info.ExecID))
		span.SetAttributes(outcome(info.Outcome)...)
		span.End()
		return info, nil
	}
	s.endExec(span, info.SessionID, info.ExecID, err)
	return info, err
}

// ExecStream implements api.Service. The span of a new command ends with the command.
func (s *Service) ExecStream(ctx context.Context, p api.ExecStreamParams) (api.Stream, error) {
	if p.ExecID != "" {
		return s.Service.ExecStream(ctx, p)
	}
	span := s.beginExec(ctx, &p.ExecParams)
	stream, err := s.Service.ExecStream(ctx, p)
	var start api.StreamStart
	if err == nil {
		start = stream.Start()
	}
	s.endExec(span, start.SessionID, start.ExecID, err)
	return stream, err
}

// beginExec begins the span of a command, and passes it to the command if Config.Commands is set.
func (s *Service) beginExec(ctx context.Context, p *api.ExecParams) trace.Span {
	ctx, span := s.t.begin(ctx, "exec")
	if _, given := p.Env[envTraceparent]; s.t.cfg.Commands && !given {
		carrier := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, carrier)
		env := maps.Clone(p.Env)
		if env == nil {
			env = map[string]string{}
		}
		env[envTraceparent] = carrier["traceparent"]
		p.Env = env
	}
	return span
}

// envTraceparent is the variable in which programs expect their position in a trace.
const envTraceparent = "TRACEPARENT"

// endExec ends the span of a command that goes on after its call, when the command ends.
func (s *Service) endExec(span trace.Span, session, exec string, err error) {
	if err != nil {
		fail(span, err)
		return
	}
	span.SetAttributes(sessionID(session), execID(exec))
	s.t.endWith(exec, openSpan{span: span})
}

// DialogueCreate implements api.Service. A prompt begins a turn.
func (s *Service) DialogueCreate(ctx context.Context, p api.DialogueCreateParams) (api.DialogueInfo, error) {
	_, span := s.t.begin(ctx, "dialogue.create")
	var turn trace.Span
	if p.Prompt != "" {
		_, turn = s.t.begin(ctx, "dialogue.turn")
	}
	info, err := s.Service.DialogueCreate(ctx, p)
	if err != nil {
		fail(span, err)
	} else {
		span.SetAttributes(sessionID(info.SessionID), dialogueID(info.DialogueID))
		span.End()
	}
	if turn != nil {
		s.endTurn(turn, info.DialogueID, 0, err)
	}
	return info, err
}

// DialogueSend implements api.Service. The span ends with the turn: of two messages that the agent
// reads in one turn, both spans end with it.
func (s *Service) DialogueSend(ctx context.Context, p api.DialogueSendParams) (api.DialogueSendResult, error) {
	_, span := s.t.begin(ctx, "dialogue.turn")
	result, err := s.Service.DialogueSend(ctx, p)
	if err == nil && result.Repeated {
		return result, nil // the span of the first call reports the turn
	}
	s.endTurn(span, s.dialogue(ctx, p.DialogueID), result.Seq, err)
	return result, err
}

// dialogue returns the id of the dialogue with that id or name, "" if it is not known.
func (s *Service) dialogue(ctx context.Context, ref string) string {
	if strings.HasPrefix(ref, "d-") { // no name begins like that
		return ref
	}
	info, _ := s.Service.DialogueInfo(ctx, api.DialogueInfoParams{DialogueID: ref})
	return info.DialogueID
}

// endTurn ends the span of a turn with the first turn that ends after an event of the dialogue.
func (s *Service) endTurn(span trace.Span, dialogue string, after int64, err error) {
	if err != nil {
		fail(span, err)
		return
	}
	span.SetAttributes(dialogueID(dialogue))
	s.t.endWith(dialogue, openSpan{span, after})
}

func sessionID(id string) attribute.KeyValue  { return attribute.String("trl.session.id", id) }
func execID(id string) attribute.KeyValue     { return attribute.String("trl.exec.id", id) }
func dialogueID(id string) attribute.KeyValue { return attribute.String("trl.dialogue.id", id) }

// ReadOutput implements api.OutputReader.
func (s *Service) ReadOutput(ctx context.Context, p api.ExecOutputParams, wait bool) (api.OutputBytes, error) {
	reader, ok := s.Service.(api.OutputReader)
	if !ok {
		return api.OutputBytes{}, api.Errorf(api.CodeInternal, "output: cannot be read as bytes")
	}
	return reader.ReadOutput(ctx, p, wait)
}
