package kube

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// The pauses between attempts to watch.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// object is an object of the cluster as it is now.
type object func(ctx context.Context) (*unstructured.Unstructured, error)

// follow shows every state of an object to see, until that reports true. It goes on when the
// cluster ends the watch, has forgotten the version, or cannot be reached for a while. What is
// the object for people.
func follow(ctx context.Context, resource dynamic.ResourceInterface, what, name string, get object, see func(*unstructured.Unstructured) (bool, error)) error {
	for wait := firstPause; ; wait = min(2*wait, lastPause) {
		done, err := followOnce(ctx, resource, what, name, get, see)
		switch {
		case done:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil, apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			wait = firstPause
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsInvalid(err):
			return err
		}
		pause(ctx, wait)
	}
}

// pause waits. It reports whether ctx has not ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func followOnce(ctx context.Context, resource dynamic.ResourceInterface, what, name string, get object, see func(*unstructured.Unstructured) (bool, error)) (done bool, err error) {
	o, err := get(ctx)
	if err != nil {
		var ended *endedError
		return errors.As(err, &ended), err
	}
	if done, err := see(o); done {
		return true, err
	}
	w, err := resource.Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + name, ResourceVersion: o.GetResourceVersion(), AllowWatchBookmarks: true,
	})
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified:
			if done, err := see(event.Object.(*unstructured.Unstructured)); done {
				return true, err
			}
		case watch.Deleted:
			return true, &endedError{what + " was deleted"}
		case watch.Error:
			return false, apierrors.FromObject(event.Object)
		}
	}
	return false, nil
}
