package server

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/trl-dev/trl/internal/rpc"
)

// reflector is the standard reflection service: it tells tools such as grpcurl which services and
// messages there are. The package of gRPC for it prepares tables at the start of every trl command,
// which takes 0.4 ms of that start; this one sends the descriptors as they were compiled.
type reflector struct {
	reflectionpb.UnimplementedServerReflectionServer
	server *grpc.Server
	// files are the compiled .proto files, by path, in gzip. None of them imports another.
	files map[string][]byte
}

// compiled is what every generated message is.
type compiled interface {
	Descriptor() (zipped []byte, index []int)
	ProtoReflect() protoreflect.Message
}

// offerReflection adds the reflection service under both of its names. Their messages are the same.
func (g *GRPC) offerReflection() {
	r := &reflector{server: g.grpc, files: map[string][]byte{}}
	//lint:ignore SA1019 older clients ask for the service by its earlier name
	alpha := &reflectionalpha.ServerReflectionRequest{}
	for _, m := range []compiled{&rpc.Frame{}, &healthpb.HealthCheckRequest{}, &reflectionpb.ServerReflectionRequest{}, alpha} {
		zipped, _ := m.Descriptor()
		r.files[m.ProtoReflect().Descriptor().ParentFile().Path()] = zipped
	}
	reflectionpb.RegisterServerReflectionServer(g.grpc, r)
	older := reflectionpb.ServerReflection_ServiceDesc
	older.ServiceName, older.Metadata = reflectionalpha.ServerReflection_ServiceDesc.ServiceName, reflectionalpha.ServerReflection_ServiceDesc.Metadata
	g.grpc.RegisterService(&older, r)
}

// ServerReflectionInfo answers questions until the client has no more.
func (r *reflector) ServerReflectionInfo(stream grpc.BidiStreamingServer[reflectionpb.ServerReflectionRequest, reflectionpb.ServerReflectionResponse]) error {
	for {
		q, err := stream.Recv()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		a := &reflectionpb.ServerReflectionResponse{ValidHost: q.Host, OriginalRequest: q}
		path := ""
		switch m := q.MessageRequest.(type) {
		case *reflectionpb.ServerReflectionRequest_ListServices:
			list := &reflectionpb.ListServiceResponse{}
			for _, name := range slices.Sorted(maps.Keys(r.server.GetServiceInfo())) {
				list.Service = append(list.Service, &reflectionpb.ServiceResponse{Name: name})
			}
			a.MessageResponse = &reflectionpb.ServerReflectionResponse_ListServicesResponse{ListServicesResponse: list}
		case *reflectionpb.ServerReflectionRequest_FileByFilename:
			path = m.FileByFilename
		case *reflectionpb.ServerReflectionRequest_FileContainingSymbol:
			if d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(m.FileContainingSymbol)); err == nil {
				path = d.ParentFile().Path()
			}
		} // The other questions are about extensions, which no message has.
		if a.MessageResponse == nil {
			if err := r.addFile(a, path); err != nil {
				return err
			}
		}
		if err := stream.Send(a); err != nil {
			return err
		}
	}
}

// addFile adds the file with that path to an answer, or says that there is none.
func (r *reflector) addFile(a *reflectionpb.ServerReflectionResponse, path string) error {
	zipped, ok := r.files[path]
	if !ok {
		a.MessageResponse = &reflectionpb.ServerReflectionResponse_ErrorResponse{
			ErrorResponse: &reflectionpb.ErrorResponse{ErrorCode: int32(codes.NotFound), ErrorMessage: "not found"}}
		return nil
	}
	z, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return err
	}
	file, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	a.MessageResponse = &reflectionpb.ServerReflectionResponse_FileDescriptorResponse{
		FileDescriptorResponse: &reflectionpb.FileDescriptorResponse{FileDescriptorProto: [][]byte{file}}}
	return nil
}
