package docker

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/runtimes/runners"
)

// The runner of new containers is in a volume, one for each version and architecture. A volume needs
// neither a shell nor a writable root file system in the container, and is filled once.

// runnerPath is the runner in a new container.
const runnerPath = runnerDir + "/" + runners.Name

func volumeName(p runners.Program) string { return p.FileName() }

// known reports whether the runner in a volume was verified.
func (e *engine) known(volume string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.volumes[volume]
}

func (e *engine) setKnown(volume string, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.volumes[volume] = known
}

// fill makes sure that the volume of a container that was created and not started has the runner.
// The volume may have been removed since it was filled; the engine then made an empty one.
func (e *engine) fill(ctx context.Context, id string, w wish, p runners.Program, labels map[string]string, progress func(api.PlaceProgress)) error {
	volume := volumeName(p)
	e.filling.Lock()
	defer e.filling.Unlock()
	if e.known(volume) {
		return nil // by another session, meanwhile
	}
	err := e.verify(ctx, id, runnerPath, p)
	if err != nil {
		if !errors.As(err, new(differs)) {
			return err
		}
		progress(api.PlaceProgress{Step: "upload", Message: "copying the runner to the engine", Total: p.Size})
		if err = e.write(ctx, w, p, labels); err == nil {
			err = e.verify(ctx, id, runnerPath, p)
		}
	}
	if err != nil {
		return err
	}
	e.setKnown(volume, true)
	return nil
}

// write writes the runner into its volume, through a container that is never started: the engine has
// no other way to write to a volume.
func (e *engine) write(ctx context.Context, w wish, p runners.Program, labels map[string]string) error {
	made, err := e.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config:     &container.Config{Image: w.image, Labels: labels, Entrypoint: []string{runnerPath}},
		HostConfig: &container.HostConfig{NetworkMode: "none", Mounts: []mount.Mount{runnerMount(volumeName(p), p.SHA256, false)}},
		Platform:   w.platform,
	})
	if err != nil {
		return e.fails(ctx, "a container to copy the runner through", err)
	}
	defer e.discard(made.ID)
	return e.fails(ctx, "copying the runner", e.copyTo(ctx, made.ID, runnerDir, delivery("", runners.Name, p)))
}

// discard removes a container that is of no use any more, also when the caller has given up.
func (e *engine) discard(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
	defer cancel()
	_, _ = e.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
}

// removeLimit bounds the removal of a container after an error. A sweep removes what is left.
const removeLimit = 30 * time.Second

// archive is the content of a tar file: directories, programs, and other names of programs.
type archive []entry

type entry struct {
	name    string
	program *runners.Program // of a program
	link    string           // of another name: the name of the program
}

// delivery puts a program into a directory. The program gets its name when it is complete, by a link, so
// that a copy that is cut short neither becomes the program nor replaces it.
func delivery(dir, name string, p runners.Program) archive {
	part := dir + ".part-" + name
	return archive{{name: part, program: &p}, {name: dir + name, link: part}}
}

// copyTo writes an archive into a directory of a container, with the permissions of the engine.
func (e *engine) copyTo(ctx context.Context, id, dir string, files archive) error {
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := files.write(w)
		_ = w.CloseWithError(err)
		written <- err
	}()
	_, err := e.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: dir, Content: r})
	_ = r.CloseWithError(io.ErrClosedPipe)
	if local := <-written; local != nil && !errors.Is(local, io.ErrClosedPipe) {
		return local
	}
	return err
}

func (a archive) write(w io.Writer) error {
	t := tar.NewWriter(w)
	for _, f := range a {
		h := &tar.Header{Name: f.name, Mode: 0o755, ModTime: time.Unix(0, 0), Typeflag: tar.TypeDir}
		switch {
		case f.program != nil:
			h.Typeflag, h.Size = tar.TypeReg, f.program.Size
		case f.link != "":
			h.Typeflag, h.Linkname = tar.TypeLink, f.link
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if f.program == nil {
			continue
		}
		content, err := f.program.Open()
		if err != nil {
			return err
		}
		_, err = io.Copy(t, content)
		_ = content.Close()
		if err != nil {
			return err
		}
	}
	return t.Close()
}

// differs says that a file in a container is not the runner that belongs there.
type differs struct{ why string }

func (d differs) Error() string { return "the runner in the container is not intact: " + d.why }

// verify reads a file of a container back, and compares its hash with that of the runner.
func (e *engine) verify(ctx context.Context, id, file string, p runners.Program) error {
	got, err := e.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: file})
	if cerrdefs.IsNotFound(err) {
		return differs{"it is not there"}
	} else if err != nil {
		return e.fails(ctx, "reading "+file, err)
	}
	defer got.Content.Close()
	t := tar.NewReader(got.Content)
	h, err := t.Next()
	switch {
	case err != nil:
		return e.fails(ctx, "reading "+file, err)
	case h.Typeflag != tar.TypeReg || path.Base(h.Name) != path.Base(file):
		return differs{"it is not a file"}
	case h.Size != p.Size || h.Mode&0o555 != 0o555:
		return differs{fmt.Sprintf("it has %d bytes and mode %o instead of %d and 755", h.Size, h.Mode, p.Size)}
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, t); err != nil {
		return e.fails(ctx, "reading "+file, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != p.SHA256 {
		return differs{"it has another hash"}
	}
	return nil
}
