package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/trl-dev/trl/api"
)

var (
	podsResource  = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	nodesResource = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

// cluster is one context of the kubeconfig.
type cluster struct {
	config    *rest.Config
	namespace string // of the context
	objects   dynamic.Interface
	base      *url.URL
	http      *http.Client

	mu    sync.Mutex
	fates map[string]*fate // guarded by mu; by UID, of the pods in which programs were started
}

// cluster returns the cluster of a context. The kubeconfig is read again for each context that is
// not known yet, not for each call: a changed file counts after a restart of this program.
func (s *Server) cluster(name string) (*cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.clusters[name]; k != nil {
		return k, nil
	}
	k, err := newCluster(name)
	if err != nil {
		return nil, api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: %s; set KUBECONFIG for the daemon, or the option context", err)
	}
	s.clusters[name] = k
	return k, nil
}

func newCluster(name string) (*cluster, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{CurrentContext: name})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, err
	}
	// Sessions are few and their pods are watched, so the client needs no rate limit.
	config.QPS = -1
	// A cluster that does not answer must not hold an operation forever; watches and execs are not
	// bounded by this.
	config.Dial = nil
	k := &cluster{config: config, namespace: namespace, fates: map[string]*fate{}}
	if k.objects, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if k.base, _, err = rest.DefaultServerUrlFor(config); err != nil {
		return nil, err
	}
	k.http, err = rest.HTTPClientFor(config)
	return k, err
}

// requestTimeout bounds a request to the cluster that it can answer at once.
const requestTimeout = 15 * time.Second

// version asks the cluster for its version.
func (k *cluster) version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.base.JoinPath("version").String(), nil)
	if err != nil {
		return "", err
	}
	answer, err := k.http.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return "", err
	}
	var version struct {
		GitVersion string `json:"gitVersion"`
		Message    string `json:"message"`
	}
	_ = json.Unmarshal(text, &version)
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", answer.Status, version.Message)
	}
	return version.GitVersion, nil
}

// endedError says that a pod has ended.
type endedError struct{ cause string }

func (e *endedError) Error() string { return e.cause }

// asError gives an error of the cluster a code and the next step.
func asError(err error) *api.Error {
	var given *api.Error
	var status apierrors.APIStatus
	var network *url.Error
	switch {
	case errors.As(err, &given):
		return given
	case errors.Is(err, context.DeadlineExceeded):
		return api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: the cluster does not answer")
	case errors.Is(err, context.Canceled):
		return api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: the caller stopped waiting")
	case apierrors.IsUnauthorized(err):
		return api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: the cluster does not accept the credentials: %s; log in again", message(err))
	case apierrors.IsForbidden(err):
		return api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: %s; dist/kubernetes has the role that TRL needs", message(err))
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return api.Errorf(api.CodeInvalidParams, "kubernetes: %s", message(err))
	case errors.As(err, &status):
		return api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: %s", message(err))
	case errors.As(err, &network):
		return api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: %s: %s", network.URL, network.Err)
	}
	return api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: %s", err)
}

// message returns the message of the cluster, on one line.
func message(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
