package remote

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/link"
)

const (
	// maxAnswer bounds what a verb of trl-runner prints.
	maxAnswer = 1 << 20
	// maxNoise bounds a line that the login shell of a place prints before a program starts.
	maxNoise = 256 << 10
	// maxBraces bounds the attempts to find the answer in a line.
	maxBraces = 100
	// The exit statuses of shells and engines for a program that is not there.
	statusNotExecutable = 126
	statusNotFound      = 127
)

// exec starts trl-runner in the place.
func (r *runner) exec(ctx context.Context, verb string, args []string) (Process, error) {
	r.mu.Lock()
	program := r.rec.Program
	r.mu.Unlock()
	return r.site.(Machine).Exec(ctx, append([]string{program, verb}, args...))
}

// note notes whether the place could be reached, and returns the error. A caller that does not wait
// any longer learns nothing about that.
func (r *runner) note(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !errors.Is(err, context.Canceled) {
		r.away = err != nil && asEnded(err) == nil
	}
	return err
}

// reinstall brings trl-runner to the place again: the cache there may have been emptied.
func (r *runner) reinstall(ctx context.Context) error {
	program, err := r.site.(Machine).Install(ctx, func(api.PlaceProgress) {})
	if err != nil {
		return err
	}
	return r.change(func(rec *record) { rec.Program = program })
}

func isMissing(e Exit) bool {
	return e.Status == statusNotExecutable || e.Status == statusNotFound
}

// run runs a verb of trl-runner in the place and decodes its answer, unless that is nil.
func (r *runner) run(ctx context.Context, answer any, verb string, args ...string) error {
	out, exit, err := r.output(ctx, verb, args)
	if err == nil && isMissing(exit) {
		if err = r.reinstall(ctx); err == nil {
			out, exit, err = r.output(ctx, verb, args)
		}
	}
	if r.note(err) != nil {
		return err
	}
	if exit.Status != 0 {
		return api.Errorf(api.CodeRuntimeUnavailable, "%s: trl-runner %s: %s", r.where(), verb, lastLine(exit.Stderr, "exit status "+strconv.Itoa(exit.Status)))
	}
	if answer != nil && !decodeLast(out, answer) {
		return api.Errorf(api.CodeRuntimeUnavailable, "%s: trl-runner %s gave no answer, but %.200q", r.where(), verb, out)
	}
	return nil
}

// output runs a verb to its end.
func (r *runner) output(ctx context.Context, verb string, args []string) ([]byte, Exit, error) {
	p, err := r.exec(ctx, verb, args)
	if err != nil {
		return nil, Exit{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	_ = p.CloseWrite()
	out, readErr := io.ReadAll(io.LimitReader(p, maxAnswer))
	exit, err := p.Wait()
	if !stop() {
		return nil, Exit{}, context.Cause(ctx)
	}
	if err == nil {
		err = readErr
	}
	return out, exit, err
}

// decodeLast decodes the last line if it ends with a JSON object. A login shell may have printed other
// lines before it, and the beginning of the line.
func decodeLast(out []byte, v any) bool {
	line := bytes.TrimSpace(out)
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	for range maxBraces {
		at := bytes.IndexByte(line, '{')
		if at < 0 {
			return false
		}
		if line = line[at:]; json.Unmarshal(line, v) == nil {
			return true
		}
		line = line[1:]
	}
	return false
}

// lastLine returns the last line of what trl-runner wrote to stderr, or else the other text.
func lastLine(stderr, other string) string {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	if last := strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "trl-runner: "); last != "" {
		return strings.ToValidUTF8(last, "?")
	}
	return other
}

// Dial joins a new connection to the socket of the runner.
func (r *runner) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	if happened(r.done) {
		return nil, r.goneError()
	}
	if k, ok := r.site.(Keeper); ok {
		return r.dialKeeper(ctx, k)
	}
	c, exit, err := r.connect(ctx)
	if err == nil && c == nil && isMissing(exit) {
		if err = r.reinstall(ctx); err == nil {
			c, exit, err = r.connect(ctx)
		}
	}
	if r.note(err) != nil {
		if ended := asEnded(err); ended != nil {
			r.end(ended.Cause, true)
		}
		return nil, err
	}
	switch {
	case c != nil:
		return c, nil
	case exit.Status == link.StatusGone:
		r.end(lastLine(exit.Stderr, "its process no longer exists"), false)
		return nil, r.goneError()
	}
	return nil, api.Errorf(api.CodeRuntimeUnavailable, "%s: trl-runner connect: %s", r.where(), lastLine(exit.Stderr, "exit status "+strconv.Itoa(exit.Status)))
}

// dialKeeper is Dial for a place that has runners itself.
func (r *runner) dialKeeper(ctx context.Context, k Keeper) (io.ReadWriteCloser, error) {
	c, err := k.Connect(ctx, r.rec.SessionID)
	var gone *GoneError
	if errors.As(err, &gone) {
		_ = r.note(nil)
		r.end(gone.Cause, false)
		return nil, r.goneError()
	}
	if r.note(err) != nil {
		if ended := asEnded(err); ended != nil {
			r.end(ended.Cause, true)
		}
		return nil, err
	}
	return c, nil
}

// kill kills the runner and returns how it ended.
func (r *runner) kill(ctx context.Context) (cause string, err error) {
	if k, ok := r.site.(Keeper); ok {
		removed, err := k.End(ctx, r.rec.SessionID)
		return removed.Cause, r.note(err)
	}
	return "killed by SIGKILL", r.run(ctx, nil, "kill", r.identity()...)
}

// clear ends everything of the session in the place.
func (r *runner) clear(ctx context.Context, clean bool) (removed link.Removed, err error) {
	if k, ok := r.site.(Keeper); ok {
		removed, err = k.End(ctx, r.rec.SessionID)
		return removed, r.note(err)
	}
	args := r.identity()
	if clean {
		args = append(args, "--clean")
	}
	err = r.run(ctx, &removed, "remove", args...)
	return removed, err
}

func (r *runner) goneError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.New("the runner has ended: " + r.rec.Ended)
}

// connect starts `trl-runner connect` and waits for its preamble. Without a connection it returns
// how the program ended.
func (r *runner) connect(ctx context.Context) (io.ReadWriteCloser, Exit, error) {
	nonce := rand.Text()
	p, err := r.exec(ctx, "connect", append(r.identity(), nonce))
	if err != nil {
		return nil, Exit{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	in := bufio.NewReaderSize(p, maxNoise)
	found, err := skipNoise(in, link.Preamble(nonce))
	if !found {
		if err != nil {
			_ = p.Close()
		}
		exit, waitErr := p.Wait()
		if !stop() {
			return nil, Exit{}, context.Cause(ctx)
		}
		if err == nil {
			err = waitErr
		}
		return nil, exit, err
	}
	if !stop() {
		_, _ = p.Wait()
		return nil, Exit{}, context.Cause(ctx)
	}
	return &connection{Process: p, in: in, rt: r.rt}, Exit{}, nil
}

// skipNoise reads up to the end of the preamble. It reports false at the end of the input; the error
// is any other reason.
func skipNoise(in *bufio.Reader, preamble string) (found bool, err error) {
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case bytes.HasSuffix(line, []byte(preamble)):
			return true, nil
		case errors.Is(err, io.EOF):
			return false, nil
		case errors.Is(err, bufio.ErrBufferFull):
			return false, api.Errorf(api.CodeRuntimeUnavailable, "the place prints too much before trl-runner starts")
		case err != nil:
			return false, err
		}
	}
}

// connection is a connection to the socket of a runner.
type connection struct {
	Process
	in    *bufio.Reader
	rt    *Runtime
	close sync.Once
}

func (c *connection) Read(b []byte) (int, error) { return c.in.Read(b) }

// Close ends the connection. The program that joined it ends by itself.
func (c *connection) Close() (err error) {
	c.close.Do(func() {
		err = c.Process.Close()
		wait := func() { _, _ = c.Process.Wait() }
		if !c.rt.spawn(wait) {
			wait()
		}
	})
	return err
}

func happened(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
