# A client and a server of gRPC-Go, which main.go is.
module=google.golang.org/grpc
packages=(osm.test/grpc)
