// A gRPC server and its client, and a server of HTTP/2 that is also reached by
// `Upgrade: h2c`, for ../scenarios.py.
//
//	recorded grpc PORT | h2c PORT | calls PORT | concurrent PORT
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const service = "shop.v1.Orders"

type text = wrapperspb.StringValue

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// place responds to a unary call as the request says.
func place(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var request text
	if err := decode(&request); err != nil {
		return nil, err
	}
	switch request.Value {
	case "missing":
		return nil, status.Error(codes.NotFound, "no order 42")
	case "broken":
		return nil, status.Error(codes.Internal, "größte Not: 100% broken")
	case "slow":
		<-ctx.Done()
		return nil, ctx.Err()
	case "large":
		return wrapperspb.String(strings.Repeat("x", 100_000)), nil
	}
	time.Sleep(2 * time.Millisecond)
	return wrapperspb.String("ok " + request.Value), nil
}

// watch sends three messages.
func watch(_ any, stream grpc.ServerStream) error {
	var request text
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	for number := range 3 {
		time.Sleep(2 * time.Millisecond)
		if err := stream.SendMsg(wrapperspb.String(fmt.Sprint(number))); err != nil {
			return err
		}
	}
	return nil
}

// upload counts messages.
func upload(_ any, stream grpc.ServerStream) error {
	for count := 0; ; count++ {
		var request text
		switch err := stream.RecvMsg(&request); err {
		case nil:
		case io.EOF:
			return stream.SendMsg(wrapperspb.String(fmt.Sprint(count)))
		default:
			return err
		}
	}
}

// chat answers each message.
func chat(_ any, stream grpc.ServerStream) error {
	for {
		var request text
		switch err := stream.RecvMsg(&request); err {
		case nil:
			must(stream.SendMsg(wrapperspb.String("re " + request.Value)))
		case io.EOF:
			return status.Error(codes.Aborted, "enough")
		default:
			return err
		}
	}
}

func serveGrpc(listener net.Listener) {
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Place", Handler: place}},
		Streams: []grpc.StreamDesc{
			{StreamName: "Watch", Handler: watch, ServerStreams: true},
			{StreamName: "Upload", Handler: upload, ClientStreams: true},
			{StreamName: "Chat", Handler: chat, ServerStreams: true, ClientStreams: true},
		},
	}, struct{}{})
	must(server.Serve(listener))
}

func serveH2c(listener net.Listener) {
	mux := http.NewServeMux()
	mux.HandleFunc("/orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		fmt.Fprintln(w, "order", r.PathValue("id"))
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, strings.Repeat("x", 50_000))
	})
	mux.HandleFunc("/events", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for number := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", number)
			w.(http.Flusher).Flush()
			time.Sleep(2 * time.Millisecond)
		}
	})
	must(http.Serve(listener, h2c.NewHandler(mux, &http2.Server{})))
}

func dial(port string) *grpc.ClientConn {
	credentials := grpc.WithTransportCredentials(insecure.NewCredentials())
	connection, err := grpc.NewClient("passthrough:///127.0.0.1:"+port, credentials)
	must(err)
	return connection
}

func unary(ctx context.Context, connection *grpc.ClientConn, request string) error {
	var response text
	return connection.Invoke(ctx, "/"+service+"/Place", wrapperspb.String(request), &response)
}

func calls(connection *grpc.ClientConn) {
	ctx := context.Background()
	traced := metadata.AppendToOutgoingContext(ctx,
		"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"x-request-id", "abc-1", "authorization", "Bearer hunter2")
	must(unary(traced, connection, "geheim"))
	must(unary(ctx, connection, "again"))
	unary(ctx, connection, "missing")
	unary(ctx, connection, "broken")
	var response text
	connection.Invoke(ctx, "/"+service+"/Vanish", wrapperspb.String("x"), &response)

	late, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	unary(late, connection, "slow")
	cancel()
	gone, cancel := context.WithCancel(ctx)
	time.AfterFunc(20*time.Millisecond, cancel)
	unary(gone, connection, "slow")
	time.Sleep(10 * time.Millisecond)

	stream := func(name string, description grpc.StreamDesc, requests ...string) {
		stream, err := connection.NewStream(ctx, &description, "/"+service+"/"+name)
		must(err)
		for _, request := range requests {
			must(stream.SendMsg(wrapperspb.String(request)))
			if description.ServerStreams && description.ClientStreams {
				must(stream.RecvMsg(&response))
			}
			time.Sleep(time.Millisecond)
		}
		must(stream.CloseSend())
		for stream.RecvMsg(&response) == nil {
		}
	}
	stream("Watch", grpc.StreamDesc{ServerStreams: true}, "x")
	stream("Upload", grpc.StreamDesc{ClientStreams: true}, "a", "b", strings.Repeat("c", 2000))
	stream("Chat", grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "a", "b")
}

func concurrent(connection *grpc.ClientConn) {
	must(unary(context.Background(), connection, "first"))
	var group sync.WaitGroup
	for number := range 20 {
		group.Go(func() {
			must(unary(context.Background(), connection, fmt.Sprint("number ", number)))
		})
	}
	group.Wait()
	must(unary(context.Background(), connection, "large"))
	time.Sleep(100 * time.Millisecond)
	must(unary(context.Background(), connection, "after"))
	unary(context.Background(), connection, "missing")
}

func main() {
	what, port := os.Args[1], os.Args[2]
	switch what {
	case "grpc", "h2c":
		listener, err := net.Listen("tcp", "127.0.0.1:"+port)
		must(err)
		if what == "grpc" {
			serveGrpc(listener)
		}
		serveH2c(listener)
	case "calls", "concurrent":
		connection := dial(port)
		if what == "calls" {
			calls(connection)
		} else {
			concurrent(connection)
		}
		must(connection.Close())
	}
}
