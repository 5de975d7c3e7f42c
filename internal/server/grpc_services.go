package server

import (
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/rpc"
)

// reflectionPrefix is what the methods of the reflection services begin with.
const reflectionPrefix = "/grpc.reflection."

// offerHealth adds the standard health service. Like /healthz and /readyz it needs no token:
// load balancers have none, and the answer reveals only whether calls are served, which is so
// from Ready until the end.
func (g *GRPC) offerHealth() {
	g.health = health.NewServer()
	g.health.SetServingStatus(rpc.TRL_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	g.health.Shutdown() // until Ready resumes it
	healthpb.RegisterHealthServer(g.grpc, g.health)
}

// guard requires a token, of any scope, for the reflection services. Call checks the token
// itself, because it needs the scope.
func (g *GRPC) guard(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if strings.HasPrefix(info.FullMethod, reflectionPrefix) {
		var refusal *api.Error
		if _, _, refusal = g.authorised(stream.Context(), &api.Caller{Transport: transportGRPC.String(), Address: callerOf(stream.Context())}); refusal != nil {
			return rpc.Status(refusal)
		}
	}
	return handler(srv, stream)
}
