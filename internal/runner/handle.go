package runner

import (
	"context"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

// routes are the functions that answer the calls of a daemon, one for each row of link.Calls,
// except Hello, which belongs to a connection and not to the session.
func (r *Runner) routes() []link.Route {
	return []link.Route{
		link.Create.Handle(r.createOnce),
		link.Info.Reply(r.info),
		link.Usage.Reply(r.usage),
		link.Set.Reply(r.set),
		link.ExecRun.Handle(r.run),
		link.ExecStart.Handle(r.start),
		link.ExecRead.Handle(r.read),
		link.ExecOutput.Handle(r.output),
		link.ExecGrep.Handle(r.grep),
		link.ExecMatch.Handle(r.match),
		link.ExecInput.Handle(r.input),
		link.ExecAwait.Reply(r.await),
		link.ExecCancel.Reply(r.cancel),
		link.ExecSignal.Reply(r.signal),
		link.ExecDrop.Reply(r.drop),
		link.ExecInfo.Reply(r.execInfo),
		link.ExecList.Reply(r.execList),
		link.Trim.Reply(r.trim),
		link.Destroy.Handle(r.dismissed),
		link.Export.Handle(r.continueExport),
		link.Input.Handle(r.typed),
		link.Resize.Reply(r.resize),
		link.Screen.Reply(r.screen),
		link.Wait.Reply(r.wait),
		link.Snapshot.Handle(r.snapshot),
		link.Follow.Handle(r.follow),
		link.Recording.Handle(r.readRecording),
	}
}

// Handle answers a call of the daemon.
func (r *Runner) Handle(ctx context.Context, in *link.Incoming) error {
	for _, route := range r.calls {
		if route.Name == in.Name {
			return route.Handle(ctx, in)
		}
	}
	return api.Errorf(api.CodeMethodNotFound, "runner: no call %q; it speaks protocol %d", in.Name, link.Protocol)
}
