package server_test

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/trl-dev/trl/internal/server"
)

// TestGRPCHealth: the health check needs no token, and a watcher gets a message when the daemon
// begins and ends to serve.
func TestGRPCHealth(t *testing.T) {
	d := newDoor(t, server.Config{}, server.GRPCConfig{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := healthpb.NewHealthClient(d.dial())
	for _, service := range []string{"", "trl.v1.TRL"} {
		r, err := c.Check(ctx, &healthpb.HealthCheckRequest{Service: service})
		if err != nil || r.Status != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("%q before it is ready: %v, %v", service, r, err)
		}
	}
	if _, err := c.Check(ctx, &healthpb.HealthCheckRequest{Service: "nosuch"}); status.Code(err) != codes.NotFound {
		t.Errorf("%v", err)
	}
	watch, err := c.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	hears := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if r, err := watch.Recv(); err != nil || r.Status != want {
			t.Fatalf("%v, %v, want %s", r, err, want)
		}
	}
	hears(healthpb.HealthCheckResponse_NOT_SERVING)
	d.grpc.Ready()
	hears(healthpb.HealthCheckResponse_SERVING)
	ended := make(chan error, 1)
	go func() { ended <- d.Shutdown(ctx) }()
	hears(healthpb.HealthCheckResponse_NOT_SERVING)
	if err := <-ended; err != nil {
		t.Errorf("shutdown: %s", err)
	}
}

// TestGRPCReflection: reflection needs a token.
func TestGRPCReflection(t *testing.T) {
	d := openDoor(t, server.Config{}, server.GRPCConfig{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := reflectionpb.NewServerReflectionClient(d.dial())
	services := func(authorization string) ([]string, error) {
		if authorization != "" {
			ctx = metadata.NewOutgoingContext(ctx, metadata.Pairs("authorization", authorization))
		}
		s, err := c.ServerReflectionInfo(ctx)
		if err != nil {
			return nil, err
		}
		// Why it was not taken, says what is received.
		_ = s.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
		r, err := s.Recv()
		var names []string
		for _, service := range r.GetListServicesResponse().GetService() {
			names = append(names, service.Name)
		}
		_ = s.CloseSend()
		return names, err
	}
	for _, authorization := range []string{"", "Bearer wrong"} {
		if names, err := services(authorization); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%q: %v, %v", authorization, names, err)
		}
	}
	for _, token := range []string{fullToken, readToken} {
		if names, err := services("Bearer " + token); err != nil || !slices.Contains(names, "trl.v1.TRL") || !slices.Contains(names, "grpc.health.v1.Health") {
			t.Errorf("%v, %v", names, err)
		}
	}
}

// TestGRPCReflectionFiles: under both names, reflection describes every service that it lists.
func TestGRPCReflectionFiles(t *testing.T) {
	d := openDoor(t, server.Config{}, server.GRPCConfig{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ctx = metadata.NewOutgoingContext(ctx, metadata.Pairs("authorization", "Bearer "+readToken))
	for _, name := range []string{"grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"} {
		s, err := d.dial().NewStream(ctx, &reflectionpb.ServerReflection_ServiceDesc.Streams[0], "/"+name+"/ServerReflectionInfo")
		if err != nil {
			t.Fatal(err)
		}
		ask := func(q *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
			var a reflectionpb.ServerReflectionResponse
			if err := s.SendMsg(q); err != nil {
				t.Fatalf("%s: %s", name, err)
			}
			if err := s.RecvMsg(&a); err != nil {
				t.Fatalf("%s: %s", name, err)
			}
			return &a
		}
		described := func(a *reflectionpb.ServerReflectionResponse) protoreflect.FileDescriptor {
			var file descriptorpb.FileDescriptorProto
			files := a.GetFileDescriptorResponse().GetFileDescriptorProto()
			if len(files) != 1 || proto.Unmarshal(files[0], &file) != nil {
				t.Fatalf("%s: %v", name, a)
			}
			f, err := protodesc.NewFile(&file, nil)
			if err != nil {
				t.Fatalf("%s: %s", name, err)
			}
			return f
		}
		listed := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}).GetListServicesResponse().GetService()
		if len(listed) != 4 {
			t.Errorf("%s: services %v", name, listed)
		}
		for _, service := range listed {
			f := described(ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service.Name}}))
			if f.Services().ByName(protoreflect.FullName(service.Name).Name()) == nil {
				t.Errorf("%s: %s has no service %s", name, f.Path(), service.Name)
			}
			again := described(ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileByFilename{FileByFilename: f.Path()}}))
			if again.Path() != f.Path() {
				t.Errorf("%s: %s is described as %s", name, f.Path(), again.Path())
			}
		}
		for _, q := range []*reflectionpb.ServerReflectionRequest{
			{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "trl.v1.Other"}},
			{MessageRequest: &reflectionpb.ServerReflectionRequest_FileByFilename{FileByFilename: "other.proto"}},
			{MessageRequest: &reflectionpb.ServerReflectionRequest_AllExtensionNumbersOfType{AllExtensionNumbersOfType: "trl.v1.Frame"}},
		} {
			if a := ask(q); a.GetErrorResponse().GetErrorCode() != int32(codes.NotFound) {
				t.Errorf("%s: %v: %v", name, q, a)
			}
		}
	}
}
