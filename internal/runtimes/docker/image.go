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

// picture is what TRL needs to know about an image.
type picture struct {
	os, arch string
	checked  bool // it has a health check
}

// image makes sure that the engine has an image, as the policy says.
func (d *Driver) image(ctx context.Context, e *engine, w wish, progress func(api.PlaceProgress)) (picture, error) {
	if w.pull == pullAlways {
		if err := d.pull(ctx, e, w, progress); err != nil {
			return picture{}, err
		}
	}
	p, err := e.picture(ctx, w)
	if cerrdefs.IsNotFound(err) && w.pull == pullMissing {
		if err := d.pull(ctx, e, w, progress); err != nil {
			return picture{}, err
		}
		p, err = e.picture(ctx, w)
	}
	if cerrdefs.IsNotFound(err) || cerrdefs.IsInvalidArgument(err) {
		return picture{}, invalid("image", "image %q: %s", w.image, plain(err))
	}
	return p, e.fails(ctx, "image "+w.image, err)
}

// wrongPlatform says that the engine has the image for another platform. The image for the wanted
// one is then missing.
type wrongPlatform struct{ has, wanted string }

func (w wrongPlatform) Error() string {
	return "the engine has it for " + w.has + ", not for " + w.wanted
}
func (wrongPlatform) Is(target error) bool { return target == cerrdefs.ErrNotFound }

// picture asks the engine about an image, for the platform that is wanted.
func (e *engine) picture(ctx context.Context, w wish) (picture, error) {
	i, err := e.ImageInspect(ctx, w.image)
	if err != nil {
		return picture{}, err
	}
	p := picture{os: i.Os, arch: goArch(i.Architecture), checked: i.Config != nil && i.Config.Healthcheck != nil}
	want := w.platform
	if want == nil || want.OS == p.os && want.Architecture == p.arch {
		return p, nil
	}
	// Engines with several platforms of one image say which they have. Older ones refuse the question.
	if v, err := e.ImageInspect(ctx, w.image, client.ImageInspectWithPlatform(want)); err == nil && v.Os == want.OS && goArch(v.Architecture) == want.Architecture {
		return picture{os: want.OS, arch: want.Architecture, checked: v.Config != nil && v.Config.Healthcheck != nil}, nil
	}
	return picture{}, wrongPlatform{has: p.os + "/" + p.arch, wanted: want.OS + "/" + want.Architecture}
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
