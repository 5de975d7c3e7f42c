package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/moby/moby/client"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/runtimes/runners"
)

// Install copies the runner into an existing container, unless the runner is there already. It stays
// for the next session. New containers have it from the start.
func (s *site) Install(ctx context.Context, progress func(api.PlaceProgress)) (string, error) {
	r := s.read()
	if r.Made {
		return runnerPath, nil
	}
	p, err := runners.Find(r.OS, r.Arch)
	if err != nil {
		return "", fmt.Errorf("container %s: %w", r.Name, err)
	}
	s.e.filling.Lock() // sessions of one container may begin at the same time
	defer s.e.filling.Unlock()
	i := &installation{site: s, program: p, user: r.User, progress: progress}
	path, err := i.run(ctx)
	if err != nil {
		return "", s.e.fails(ctx, "container "+r.Name, err)
	}
	s.mu.Lock()
	s.r.Runner = path
	s.mu.Unlock()
	return path, nil
}

// installation tries the directories of a container in turn.
type installation struct {
	*site
	program  runners.Program
	user     string
	progress func(api.PlaceProgress)
	refused  []string // why each directory is of no use
}

func (i *installation) run(ctx context.Context) (string, error) {
	c, err := i.e.ContainerInspect(ctx, i.r.ID, client.ContainerInspectOptions{})
	if err != nil {
		return "", err
	}
	for _, m := range c.Container.Mounts {
		if m.Destination == runnerDir && m.Name == volumeName(i.program) { // made by TRL
			return runnerPath, nil
		}
	}
	path := runnerDir + "/" + i.program.FileName()
	if _, err := i.e.ContainerStatPath(ctx, i.r.ID, client.ContainerStatPathOptions{Path: path}); err == nil {
		if err = i.works(ctx, path); err == nil || !errors.As(err, new(refusal)) {
			return path, err
		}
	}
	i.progress(api.PlaceProgress{Step: "upload", Message: "copying the runner into container " + i.r.Name, Total: i.program.Size})
	// The engine writes to the root file system of the container itself, so the container needs no
	// program for that. It does not write to a read-only one, nor into a tmpfs.
	dir := runnerDir[1:] + "/"
	err = i.e.copyTo(ctx, i.r.ID, "/", append(archive{{name: dir}}, delivery(dir, i.program.FileName(), i.program)...))
	if err == nil {
		err = i.works(ctx, path)
	}
	if err == nil {
		return path, nil
	}
	if i.e.broken(err) != nil || ctx.Err() != nil {
		return "", err
	}
	i.refused = append(i.refused, runnerDir+": "+plain(err))
	for _, dir := range []string{"/tmp", "/var/tmp", "/run", "/dev/shm"} {
		path, err := i.through(ctx, dir)
		if err == nil {
			return path, nil
		}
		if i.e.broken(err) != nil || ctx.Err() != nil {
			return "", err
		}
		i.refused = append(i.refused, dir+": "+plain(err))
	}
	return "", api.Errorf(api.CodeRuntimeUnavailable, "no directory is suitable for the runner (%s); mount a tmpfs with the option exec on /tmp, or a volume on %s", strings.Join(i.refused, "; "), runnerDir)
}

// works runs the runner, which compares the hash of its own file.
func (i *installation) works(ctx context.Context, path string) error {
	return i.tell(ctx, nil, path, "check", i.program.SHA256)
}

// through writes the runner with the shell of the container, if it has one, into a directory that
// belongs to the user alone: others could replace the runner in a shared one.
func (i *installation) through(ctx context.Context, dir string) (string, error) {
	own := dir + "/.trl-" + strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_' {
			return c
		}
		return '_'
	}, "user-"+i.user)
	path := own + "/" + i.program.FileName()
	const check = `[ -d "$1" ] && [ -O "$1" ] && [ ! -L "$1" ] || { echo "$1 belongs to another user" >&2; exit 1; }; [ -f "$2" ] || exit 1; exec "$2" check "$3"`
	// The directory is removed again where it is empty: the disk is full, or may have no programs.
	const write = `umask 077; [ -d "$1" ] || mkdir "$1" || exit 1; [ -O "$1" ] && [ ! -L "$1" ] || { echo "$1 belongs to another user" >&2; exit 1; }
cat >"$2.new" && chmod 700 "$2.new" && "$2.new" check "$3" && mv -f "$2.new" "$2" || { rm -f "$2.new"; rmdir "$1" 2>/dev/null; exit 1; }`
	if i.tell(ctx, nil, "sh", "-c", check, "sh", own, path, i.program.SHA256) == nil {
		return path, nil
	}
	content, err := i.program.Open()
	if err != nil {
		return "", err
	}
	defer content.Close()
	return path, i.tell(ctx, content, "sh", "-c", write, "sh", own, path, i.program.SHA256)
}

// tell runs a program in the container to its end. The error quotes what it said.
func (i *installation) tell(ctx context.Context, stdin io.Reader, argv ...string) error {
	p, err := i.e.exec(ctx, i.r.ID, i.user, argv)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	defer stop()
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		if stdin != nil {
			_, _ = io.Copy(p, stdin) // a program that ended early says why
		}
		_ = p.CloseWrite()
	}()
	var said tail
	_, readErr := io.Copy(&said, p)
	_ = p.conn.Conn.SetWriteDeadline(past) // the program reads no more
	<-fed
	exit, err := p.Wait()
	switch {
	case readErr != nil:
		return readErr
	case err != nil:
		return err
	case exit.Status == 0:
		return nil
	}
	// The engine's own error about a program that it cannot start is on stdout.
	text := strings.TrimSpace(said.String() + exit.Stderr)
	if text == "" {
		text = fmt.Sprintf("%s exited with status %d", argv[0], exit.Status)
	}
	return refusal{text}
}

// refusal says that a program in the container ended with an error, and what it said.
type refusal struct{ said string }

func (r refusal) Error() string { return r.said }
