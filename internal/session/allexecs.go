package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trl-dev/trl/api"
)

// GetByExec returns the session of a command. The id of a command contains that of its session, so
// there is no table of commands.
func (r *Registry) GetByExec(execID string) (*Session, error) {
	notFound := api.Errorf(api.CodeExecNotFound, "exec %.100q: not found", execID)
	rest, ok := strings.CutPrefix(execID, "x-")
	middle, _, ok2 := strings.Cut(rest, "-")
	if !ok || !ok2 || middle == "" {
		return nil, notFound
	}
	found, err := r.Get("s-" + middle)
	if err != nil {
		return nil, notFound
	}
	return found, nil
}

// listPatience is how long AllExecs waits for one session.
const listPatience = 2 * time.Second

// AllExecs returns the commands of all sessions, live and ended. It asks the sessions at the same
// time, and returns the ids of those that do not answer soon, so that they do not delay the list.
func (r *Registry) AllExecs(ctx context.Context) (execs []api.ExecInfo, unreachable []string) {
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	sessions := append(r.List(), r.Past()...)
	lists, silent := make([][]api.ExecInfo, len(sessions)), make([]string, len(sessions))
	var all sync.WaitGroup
	for i, s := range sessions {
		if !s.Reachable() {
			silent[i] = s.ID()
			continue
		}
		all.Go(func() {
			list, err := s.ExecList(ctx)
			if err != nil && !errors.Is(err, api.ErrSessionTerminated) {
				s.log.Warn("commands of a session cannot be listed", "error", err)
				silent[i] = s.ID()
			}
			lists[i] = list
		})
	}
	all.Wait()
	return slices.Concat(lists...), slices.DeleteFunc(silent, func(id string) bool { return id == "" })
}
