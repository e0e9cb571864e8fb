//go:build programs

// A client and a server of gRPC for the tests. With -xds they are in the mesh themselves: they get
// listeners, routes, clusters and endpoints from the controller that GRPC_XDS_BOOTSTRAP names, and
// read their certificates from files. Without, they use plain text, for a proxy beside them.
//
//	grpc -serve 0.0.0.0:8080 -name NAME [-xds]
//	grpc -call xds:///api.shop:8080 [-xds] [-calls N] [-pause 20ms] [-timeout 5s] [-method /SERVICE/METHOD]
//
// The client prints one JSON object per call. -calls 0: until it is ended.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	xdscreds "google.golang.org/grpc/credentials/xds"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/xds"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var (
	serve   = flag.String("serve", "", "address to listen on")
	name    = flag.String("name", "server", "the server's name in its answers")
	call    = flag.String("call", "", "target to call")
	method  = flag.String("method", "/osm.test.Echo/Say", "method to call")
	calls   = flag.Int("calls", 1, "number of calls; 0: until the end")
	pause   = flag.Duration("pause", 20*time.Millisecond, "time between calls")
	timeout = flag.Duration("timeout", 5*time.Second, "deadline of each call")
	mesh    = flag.Bool("xds", false, "be in the mesh")
)

// identity is the URI SAN of the peer's certificate; empty: it has none.
func identity(ctx context.Context) string {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	// The type in peer.AuthInfo differs between credentials, its state does not.
	if info, ok := from.AuthInfo.(credentials.TLSInfo); ok {
		return uri(info)
	}
	return ""
}

func uri(info credentials.TLSInfo) string {
	if certificates := info.State.PeerCertificates; len(certificates) > 0 && len(certificates[0].URIs) > 0 {
		return certificates[0].URIs[0].String()
	}
	return ""
}

func say(ctx context.Context, request any) (any, error) {
	answer, err := json.Marshal(map[string]string{
		"server": *name, "text": request.(*wrapperspb.StringValue).GetValue(), "caller": identity(ctx)})
	return wrapperspb.String(string(answer)), err
}

// handler reads the request and lets the xDS server's interceptor decide, which is RBAC.
func handler(full string) grpc.MethodHandler {
	return func(server any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		input := new(wrapperspb.StringValue)
		if err := decode(input); err != nil {
			return nil, err
		}
		if interceptor == nil {
			return say(ctx, input)
		}
		return interceptor(ctx, input, &grpc.UnaryServerInfo{Server: server, FullMethod: full}, say)
	}
}

func serveForever() error {
	echo := &grpc.ServiceDesc{
		ServiceName: "osm.test.Echo",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "Say", Handler: handler("/osm.test.Echo/Say")},
			{MethodName: "Whisper", Handler: handler("/osm.test.Echo/Whisper")},
		},
	}
	listener, err := net.Listen("tcp", *serve)
	if err != nil {
		return err
	}
	if !*mesh {
		server := grpc.NewServer()
		server.RegisterService(echo, struct{}{})
		fmt.Println("serving")
		return server.Serve(listener)
	}
	own, err := xdscreds.NewServerCredentials(xdscreds.ServerOptions{FallbackCreds: insecure.NewCredentials()})
	if err != nil {
		return err
	}
	mode := xds.ServingModeCallback(func(address net.Addr, change xds.ServingModeChangeArgs) {
		fmt.Println(change.Mode, change.Err)
	})
	server, err := xds.NewGRPCServer(grpc.Creds(own), mode)
	if err != nil {
		return err
	}
	server.RegisterService(echo, struct{}{})
	return server.Serve(listener)
}

type result struct {
	Code    string          `json:"code"`
	Message string          `json:"message,omitempty"`
	Server  string          `json:"server_identity,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
}

func once(connection *grpc.ClientConn, number int) result {
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	var answer wrapperspb.StringValue
	var from peer.Peer
	err := connection.Invoke(ctx, *method, wrapperspb.String(fmt.Sprint(number)), &answer, grpc.Peer(&from))
	out := result{Code: status.Code(err).String()}
	if err != nil {
		out.Message = status.Convert(err).Message()
		return out
	}
	out.Answer = json.RawMessage(answer.GetValue())
	if info, ok := from.AuthInfo.(credentials.TLSInfo); ok {
		out.Server = uri(info)
	}
	return out
}

func callAll() error {
	own := insecure.NewCredentials()
	if *mesh {
		var err error
		if own, err = xdscreds.NewClientCredentials(xdscreds.ClientOptions{FallbackCreds: own}); err != nil {
			return err
		}
	}
	connection, err := grpc.NewClient(*call, grpc.WithTransportCredentials(own))
	if err != nil {
		return err
	}
	defer connection.Close()
	lines := json.NewEncoder(os.Stdout)
	for number := 1; *calls == 0 || number <= *calls; number++ {
		if err := lines.Encode(once(connection, number)); err != nil {
			return err
		}
		time.Sleep(*pause)
	}
	return nil
}

func main() {
	flag.Parse()
	work := callAll
	if *serve != "" {
		work = serveForever
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
