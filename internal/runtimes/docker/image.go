package docker

import (
	"context"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/trl-dev/trl/api"
)

// image makes sure that the engine has an image, as the policy says, and returns its platform.
func (d *Driver) image(ctx context.Context, e *engine, w wish, progress func(api.PlaceProgress)) (os, arch string, err error) {
	if w.pull == pullAlways {
		if err := d.pull(ctx, e, w, progress); err != nil {
			return "", "", err
		}
	}
	os, arch, err = e.platformOf(ctx, w)
	if cerrdefs.IsNotFound(err) && w.pull == pullMissing {
		if err := d.pull(ctx, e, w, progress); err != nil {
			return "", "", err
		}
		os, arch, err = e.platformOf(ctx, w)
	}
	if cerrdefs.IsNotFound(err) || cerrdefs.IsInvalidArgument(err) {
		return "", "", invalid("image", "image %q: %s", w.image, plain(err))
	}
	return os, arch, e.fails(ctx, "image "+w.image, err)
}

// wrongPlatform says that the engine has the image for another platform. The image for the wanted
// one is then missing.
type wrongPlatform struct{ has, wanted string }

func (w wrongPlatform) Error() string {
	return "the engine has it for " + w.has + ", not for " + w.wanted
}
func (wrongPlatform) Is(target error) bool { return target == cerrdefs.ErrNotFound }

// platformOf asks for which platform the engine has an image.
func (e *engine) platformOf(ctx context.Context, w wish) (os, arch string, err error) {
	i, err := e.ImageInspect(ctx, w.image)
	if err != nil {
		return "", "", err
	}
	os, arch = i.Os, goArch(i.Architecture)
	if p := w.platform; p != nil && (p.OS != os || p.Architecture != arch) {
		// Engines with several platforms of one image say which they have. Older ones refuse the question.
		if v, err := e.ImageInspect(ctx, w.image, client.ImageInspectWithPlatform(p)); err == nil && v.Os == p.OS && goArch(v.Architecture) == p.Architecture {
			return p.OS, p.Architecture, nil
		}
		return "", "", wrongPlatform{has: os + "/" + arch, wanted: p.OS + "/" + p.Architecture}
	}
	return os, arch, nil
}

// pull pulls an image with the credentials of the docker configuration.
func (d *Driver) pull(ctx context.Context, e *engine, w wish, progress func(api.PlaceProgress)) error {
	progress(api.PlaceProgress{Step: "pull", Message: "pulling " + w.image})
	auth, err := d.credentials(ctx, d.surroundings(), w.image)
	if err != nil {
		return err
	}
	o := client.ImagePullOptions{RegistryAuth: auth}
	if w.platform != nil {
		o.Platforms = []ocispec.Platform{*w.platform}
	}
	stream, err := e.ImagePull(ctx, w.image, o)
	if err == nil {
		layers := pulled{image: w.image, report: progress}
		for message, failed := range stream.JSONMessages(ctx) {
			if failed != nil {
				err = failed
				break
			}
			if message.Error != nil {
				err = message.Error
				break
			}
			layers.add(message)
		}
		_ = stream.Close()
	}
	switch {
	case err == nil:
		return nil
	case cerrdefs.IsNotFound(err) || notThere(err):
		return invalid("image", "image %q: not found: %s", w.image, plain(err))
	}
	return e.fails(ctx, "pulling image "+w.image, err)
}

// notThere reports whether an error says that a registry does not have the image, or not for this
// platform. In the stream of a pull it has no status.
func notThere(err error) bool {
	for _, text := range []string{"not found", "manifest unknown", "no matching manifest", "does not exist", "no match for platform"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// pulled adds up what was pulled of each layer.
type pulled struct {
	image  string
	report func(api.PlaceProgress)
	layers map[string]jsonstream.Progress // by the id of the layer: what was downloaded
	last   time.Time
}

// reportEvery is how often progress is reported at most.
const reportEvery = 200 * time.Millisecond

func (p *pulled) add(m jsonstream.Message) {
	if p.layers == nil {
		p.layers = map[string]jsonstream.Progress{}
	}
	switch l := p.layers[m.ID]; {
	case m.Status == "Downloading" && m.Progress != nil:
		p.layers[m.ID] = *m.Progress
	case m.Status == "Download complete" && l.Total > 0:
		l.Current = l.Total
		p.layers[m.ID] = l
	default:
		return
	}
	if now := time.Now(); now.Sub(p.last) >= reportEvery {
		p.last = now
		about := api.PlaceProgress{Step: "pull", Message: "pulling " + p.image}
		for _, l := range p.layers {
			about.Done += l.Current
			about.Total += l.Total
		}
		p.report(about)
	}
}
