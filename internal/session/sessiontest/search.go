package sessiontest

import (
	"context"
	"encoding/json"

	"github.com/trl-dev/trl/internal/link"
	"github.com/trl-dev/trl/internal/search"
)

// grep searches as a real runner does.
func (r *Runner) grep(ctx context.Context, p link.GrepParams) (any, []byte, error) {
	return search.Grep(ctx, p, func(o link.OutputParams) (link.OutputResult, []byte, error) {
		return inner[link.OutputResult](ctx, o, r.output)
	})
}

// match searches as a real runner does.
func (r *Runner) match(ctx context.Context, p link.MatchParams) (any, []byte, error) {
	return search.Match(ctx, p, func(o link.ReadParams) (link.ReadResult, []byte, error) {
		return inner[link.ReadResult](ctx, o, r.read)
	})
}

// inner makes a call from within the runner.
func inner[R any](ctx context.Context, params any, call func(context.Context, json.RawMessage) (any, []byte, error)) (R, []byte, error) {
	raw, _ := json.Marshal(params)
	result, body, err := call(ctx, raw)
	typed, _ := result.(R)
	if err == nil {
		err = ctx.Err()
	}
	return typed, body, err
}
