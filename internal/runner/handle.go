package runner

import (
	"context"
	"encoding/json"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// Handle answers what a daemon asks.
func (r *Runner) Handle(ctx context.Context, name string, params json.RawMessage, body []byte) (any, []byte, error) {
	switch name {
	case link.CallCreate:
		var p link.CreateParams
		if err := decode(params, &p); err != nil {
			return nil, nil, err
		}
		return r.createOnce(p)
	case link.CallInfo:
		return r.details(), nil, nil
	case link.CallSet:
		return call(params, r.set)
	case link.CallExecRun:
		var p link.ExecParams
		if err := decode(params, &p); err != nil {
			return nil, nil, err
		}
		return r.run(ctx, p, body)
	case link.CallExecStart:
		return call(params, func(p link.ExecParams) (api.ExecInfo, error) { return r.start(p, body) })
	case link.CallExecRead:
		var p link.ReadParams
		if err := decode(params, &p); err != nil {
			return nil, nil, err
		}
		return r.read(ctx, p)
	case link.CallExecOutput:
		var p link.OutputParams
		if err := decode(params, &p); err != nil {
			return nil, nil, err
		}
		return r.output(ctx, p)
	case link.CallExecInput:
		return call(params, func(p link.InputParams) (api.ExecInputResult, error) { return r.input(ctx, p, body) })
	case link.CallExecAwait:
		return call(params, func(p api.ExecInfoParams) (link.AwaitResult, error) { return r.await(ctx, p) })
	case link.CallExecCancel:
		return call(params, func(p api.ExecCancelParams) (api.ExecInfo, error) { return r.cancel(ctx, p) })
	case link.CallExecDrop:
		return call(params, r.drop)
	case link.CallExecInfo:
		return call(params, func(p api.ExecInfoParams) (api.ExecInfo, error) {
			e, err := r.find(p.ExecID)
			if err != nil {
				return api.ExecInfo{}, err
			}
			return e.Info(), nil
		})
	case link.CallExecList:
		return api.ExecListResult{Execs: r.list()}, nil, nil
	case link.CallDestroy:
		var p link.DestroyParams
		if err := decode(params, &p); err != nil {
			return nil, nil, err
		}
		return r.dismissed(p)
	case link.CallInput:
		return call(params, func(p link.SessionInputParams) (api.SessionInputResult, error) { return r.typed(ctx, p, body) })
	case link.CallResize:
		return call(params, r.resize)
	case link.CallScreen:
		return call(params, r.screen)
	case link.CallWait:
		return call(params, func(p api.SessionWaitParams) (api.SessionWaitResult, error) { return r.wait(ctx, p) })
	case link.CallSnapshot:
		var p link.SnapshotParams
		if err := decode(params, &p); err != nil {
			return nil, nil, err
		}
		return r.snapshot(ctx, p)
	case link.CallFollow:
		var p link.FollowParams
		if err := decode(params, &p); err != nil {
			return nil, nil, err
		}
		return r.follow(ctx, p)
	case link.CallExport:
		return r.exportOn()
	case link.CallTrim:
		return call(params, r.trim)
	}
	return nil, nil, api.Errorf(api.CodeMethodNotFound, "runner: no call %q; it speaks protocol %d", name, link.Protocol)
}

func call[P, R any](params json.RawMessage, f func(P) (R, error)) (any, []byte, error) {
	var p P
	if err := decode(params, &p); err != nil {
		return nil, nil, err
	}
	res, err := f(p)
	return res, nil, err
}

func decode(params json.RawMessage, p any) error {
	if err := json.Unmarshal(params, p); err != nil {
		return api.Errorf(api.CodeInternal, "runner: params: %s", err)
	}
	return nil
}
